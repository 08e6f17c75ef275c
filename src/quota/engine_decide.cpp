// Decisions over all limits of all subjects of a call: reserve, check, record.
#include <algorithm>

#include "quota/answer_holders.hpp"
#include "quota/answer_limits.hpp"
#include "quota/answer_subjects.hpp"
#include "quota/engine.hpp"
#include "quota/limited_subject_meters.hpp"

namespace sluice::quota {

using api::QuotaAnswer;
using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using limiter::MeterShape;

void Engine::decide(QuotaBatch& batch, base::Now now, api::ShardId origin) noexcept {
  clock_.begin(now);
  resolver_.begin_batch();
  for (size_t first = 0; first < batch.calls.size(); first += CallGroup::calls_max) {
    const size_t count = std::min(CallGroup::calls_max, batch.calls.size() - first);
    group_.prepare(batch, first, count);
    for (size_t place = 0; place < count; ++place) {
      if (batch.calls[first + place].shard != options_.shard) continue;
      clock_.next_call();
      decide_one(batch, first + place, group_.hashes(place), origin);
    }
  }
  subjects_.sweep(1, no_limited_subjects);
}

void Engine::decide_one(QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
                        api::ShardId origin) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  switch (call.op) {
    case QuotaOp::reserve:
      return reserve(batch, index, hashes, origin);
    case QuotaOp::check:
      return check(batch, index, hashes);
    case QuotaOp::record:
      return record(batch, index, hashes);
    case QuotaOp::settle:
      if (lifecycle_.settle(call, answer)) server_.serve_marked();
      return;
    case QuotaOp::cancel:
      if (lifecycle_.cancel(call, answer)) server_.serve_marked();
      return;
    case QuotaOp::extend:
      return lifecycle_.extend(call, answer);
    case QuotaOp::show:
    case QuotaOp::usage:
    case QuotaOp::page:
    case QuotaOp::holders:
      return answer_question(batch, index, hashes);
    case QuotaOp::put:
      return put(batch, index, hashes[0]);
    case QuotaOp::remove:
      return remove(batch, index, hashes[0]);
    case QuotaOp::reset:
      return reset(batch, index, hashes[0]);
    case QuotaOp::reset_all:
      reset_all();
      answer.code = QuotaCode::ok;
      return;
    case QuotaOp::end_binding:
      if (lifecycle_.end_connection(call.binding)) server_.serve_marked();
      answer.code = QuotaCode::ok;
      return;
  }
}

// Finds the subjects of a call that its limits decide.
inline QuotaCode Engine::find_subjects(QuotaBatch& batch, const QuotaCall& call,
                                       const SubjectHashes& hashes, IfAbsent if_absent,
                                       LimitedSubjects& limited) noexcept {
  const QuotaCode code = resolver_.find_subjects(batch, call, hashes, if_absent, limited);
  if (code != QuotaCode::ok) return code;
  for (const LimitedSubject& each : limited) {
    batch.limits_checked += static_cast<uint32_t>(each.quota->shapes.size());
  }
  return code;
}

// Answers a call that asks and changes nothing.
void Engine::answer_question(QuotaBatch& batch, size_t index,
                             const SubjectHashes& hashes) noexcept {
  const QuotaCall& call = batch.calls[index];
  if (call.op == QuotaOp::show) return answer_reservation(batch, index, sources());
  if (call.op == QuotaOp::page) return answer_page(batch, index, sources());
  const bool lists_all = call.op == QuotaOp::holders && call.subjects_count == 0;
  if (!lists_all && !resolver_.has_valid_names(batch, index)) return;
  if (call.op == QuotaOp::usage) return answer_usage(batch, index, hashes, sources());
  answer_holders(batch, index, hashes, sources());
}

// The reservation that the request's id names, or the waiter.
std::optional<ClientIds::Entry> Engine::find_repeated(const Request& request) const noexcept {
  if (!request.id.is_set()) return std::nullopt;
  return client_ids_.find(request.id, [&](ClientIds::Entry entry) -> const NameHash& {
    return entry.is_waiter ? queues_[entry.index].request.id : reservations_[entry.index].client_id;
  });
}

QuotaCode Engine::repeated_code(const Request& request, ClientIds::Entry found) const noexcept {
  if (found.is_waiter) return QuotaCode::id_in_use;
  const Reservation& reservation = reservations_[found.index];
  return reservation.request_hash == request.request_hash ? reservation.admission
                                                          : QuotaCode::id_in_use;
}

// True: the request's id names a reservation or a waiter, and the answer follows from it.
bool Engine::answer_repeat(const Request& request, QuotaAnswer& answer) noexcept {
  const std::optional<ClientIds::Entry> found = find_repeated(request);
  if (!found) return false;
  answer.code = repeated_code(request, *found);
  if (answer.code == QuotaCode::id_in_use) return true;
  Reservation& reservation = reservations_[found->index];
  reservation.repeated = true;
  answer.state = reservation.state;
  answer.reservation = reservation.id;
  answer.amounts = reservation.amounts;
  answer.lifetime_ms = reservations_.lifetime_left_ms(reservation);
  return true;
}

// Sets and counts the outcome of a reserve.
inline void Engine::set_outcome(QuotaCode code, QuotaAnswer& answer) noexcept {
  ++statistics_.reserves[static_cast<size_t>(code)];
  answer.code = code;
  if (!api::admits(code) && code != QuotaCode::queued) set_retry_after(answer);
}

// Opens the reservation of a request that was charged.
inline void Engine::admit(const Request& request, const LimitedSubjects& limited,
                          std::string_view owner, QuotaAnswer& answer) noexcept {
  const Reservation& made = reservations_.open(request, admission_code(limited), owner);
  answer.reservation = made.id;
  answer.state = api::ReservationState::open;
  answer.lifetime_ms = request.lifetime_ms;
  if (queues_.pool().used() > 0) queues_.count_overtaking(limited);
  set_outcome(made.admission, answer);
}

void Engine::reserve(QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
                     api::ShardId origin) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  LimitedSubjects limited;
  const QuotaCode gathered = find_subjects(batch, call, hashes, IfAbsent::make, limited);
  if (gathered != QuotaCode::ok) return set_outcome(gathered, answer);
  const Request request = resolver_.request_of(batch, call, limited);
  if (request.id.is_set() && answer_repeat(request, answer)) {
    set_outcome(answer.code, answer);
  } else {
    const limiter::Shares shares(request.amounts);
    const bool has_room = reservations_.has_room();
    const bool must_wait = queues_.must_wait(limited);
    const bool fits = !must_wait && (has_room ? charge_if_fits(limited, shares, clock_.moment())
                                              : subjects_fit(limited, shares, clock_.moment()));
    if (!fits) {
      refuse(batch, index, limited, request, origin);
    } else if (has_room) {
      admit(request, limited, call.owner, answer);
    } else {
      set_outcome(QuotaCode::reservations_full, answer);
    }
  }
  if (api::admits(answer.code) && (call.flags & api::quota_flag::wants_limits) != 0) {
    answer_limits(answer, batch.limits, limited, request.amounts, ReportedLimits::all, sources());
  }
}

// The request does not fit, or others wait: it waits too if it may, else it is denied.
void Engine::refuse(QuotaBatch& batch, size_t index, const LimitedSubjects& limited,
                    const Request& request, api::ShardId origin) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  Obstacle obstacle = find_obstacle(limited, limiter::Shares(request.amounts), clock_.moment());
  if (obstacle.code == QuotaCode::ok) server_.set_queue_ahead(obstacle, limited);
  QuotaCode code = obstacle.code;
  if ((call.flags & api::quota_flag::may_wait) != 0) {
    code = server_.join(call, request, obstacle, origin, answer);
    const bool lends = code == QuotaCode::queued && !batch.wait_answers.empty();
    if (lends) queues_[answer.waiter].answer = batch.wait_answers[index];
  }
  set_outcome(code, answer);
  if (code != QuotaCode::queued) deny(batch, index, limited, request, code, obstacle);
}

void Engine::deny(QuotaBatch& batch, size_t index, const LimitedSubjects& limited,
                  const Request& request, QuotaCode code, const Obstacle& obstacle) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  answer.code = code;
  answer.retry_after_ms = retry_after_ms_of(code, obstacle, clock_.ns());
  if ((call.flags & (api::quota_flag::wants_violated | api::quota_flag::wants_limits)) != 0) {
    const bool wants_all = (call.flags & api::quota_flag::wants_limits) != 0;
    answer_limits(answer, batch.limits, limited, request.amounts,
                  wants_all ? ReportedLimits::all : ReportedLimits::violated, sources());
  }
}

void Engine::check(QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  LimitedSubjects limited;
  answer.code = find_subjects(batch, call, hashes, IfAbsent::only_find, limited);
  if (answer.code != QuotaCode::ok) return set_retry_after(answer);
  const Request request = resolver_.request_of(batch, call, limited);
  if (const auto found = find_repeated(request)) {
    answer.code = repeated_code(request, *found);
    if (answer.code == QuotaCode::id_in_use) set_retry_after(answer);
  } else {
    const bool must_wait = queues_.must_wait(limited);
    Obstacle obstacle = find_obstacle(limited, limiter::Shares(request.amounts), clock_.moment());
    if (obstacle.code == QuotaCode::ok && must_wait) server_.set_queue_ahead(obstacle, limited);
    if (obstacle.code != QuotaCode::ok) {
      return deny(batch, index, limited, request, obstacle.code, obstacle);
    }
    answer.code = admission_code(limited);
  }
  if (!api::admits(answer.code)) return;
  if ((call.flags & api::quota_flag::wants_limits) != 0) {
    answer_limits(answer, batch.limits, limited, request.amounts, ReportedLimits::all, sources());
  }
}

void Engine::record(QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  LimitedSubjects limited;
  answer.code = find_subjects(batch, call, hashes, IfAbsent::make, limited);
  if (answer.code != QuotaCode::ok) return set_retry_after(answer);
  const limiter::Shares shares(call.amounts, call.cached_input_tokens);
  for (const LimitedSubject& each : limited) {
    for (const MeterShape& shape : each.quota->shapes) {
      charge_used(shape, each.words, shares.of(shape), clock_.moment());
    }
  }
  ++statistics_.recorded;
  answer.code = admission_code(limited);
  if ((call.flags & api::quota_flag::wants_limits) != 0) {
    answer_limits(answer, batch.limits, limited, call.amounts, ReportedLimits::all, sources());
  }
}

}  // namespace sluice::quota
