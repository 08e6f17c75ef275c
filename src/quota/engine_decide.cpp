// Decisions over all limits of all subjects of a call: reserve, consume, check, record.
#include <algorithm>
#include <utility>

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

namespace {

// As many steps along a queue as take as long as one limit.
constexpr uint32_t queue_steps_a_limit = 4;

}  // namespace

void Engine::decide(QuotaBatch& batch, base::Now now, api::ShardId origin) noexcept {
  clock_.begin(now);
  // One that no worker has taken in comes now.
  if (batch.arrival == api::Arrival{}) batch.arrival = {clock_.ns(), clock_.order()};
  resolver_.begin_batch();
  if (!batch.spread.empty()) {
    spread_.decide(batch, origin);
  } else if (batch.pass == api::Pass::end) {
    end_parts(batch);
  } else if (batch.pass == api::Pass::extend) {
    finish_extends(batch);
  } else if (batch.pass == api::Pass::complete) {
    complete_holders(batch, sources());
  } else {
    decide_own(batch, origin);
  }
  subjects_.sweep(1, no_limited_subjects);
}

// Serves the waiters that this may help. Other shards have parts of the reservation to end, too.
inline void Engine::on_ended(QuotaBatch& batch, size_t index,
                             ReservationLifecycle::Ended ended) noexcept {
  if (ended == ReservationLifecycle::Ended::no) return;
  if (ended == ReservationLifecycle::Ended::with_parts) {
    lifecycle_.take_parts(static_cast<uint32_t>(index), batch.part_ends);
  }
  server_.serve_marked();
}

// `place`: in the prepared group. The most frequent ones come first, in a function that has little
// to save.
inline void Engine::decide_one(QuotaBatch& batch, size_t index, size_t place,
                               api::ShardId origin) noexcept {
  switch (batch.calls[index].op) {
    case QuotaOp::reserve:
    case QuotaOp::consume:
      return ask_admission(batch, index, group_.hashes(place), origin);
    case QuotaOp::settle:
      return on_ended(batch, index,
                      lifecycle_.settle(batch.calls[index], group_.expected_reservation(place),
                                        batch.answers[index]));
    default:
      return decide_other(batch, index, group_.hashes(place));
  }
}

// Decides the calls of this shard. Those that await a verdict have no answer yet: a later call of
// this function decides them.
void Engine::decide_own(QuotaBatch& batch, api::ShardId origin) noexcept {
  if (batch.awaits_verdict || undecided_.have_claims()) return decide_beside_claims(batch, origin);
  for (size_t first = 0; first < batch.calls.size(); first += CallGroup::calls_max) {
    const size_t count = std::min(CallGroup::calls_max, batch.calls.size() - first);
    group_.prepare(batch, first, count, options_.shard);
    for (size_t place = 0; place < count; ++place) {
      if (batch.calls[first + place].shard != options_.shard) continue;
      clock_.next_call();
      decide_one(batch, first + place, place, origin);
    }
  }
}

// The same where calls have claims, perhaps of this batch.
void Engine::decide_beside_claims(QuotaBatch& batch, api::ShardId origin) noexcept {
  const std::span<const uint32_t> list = undecided_.take_list(batch, api::ShardId(options_.shard));
  for (size_t first = 0; first < list.size(); first += CallGroup::calls_max) {
    const auto calls = list.subspan(first, std::min(CallGroup::calls_max, list.size() - first));
    group_.prepare(batch, calls, options_.shard);
    for (size_t place = 0; place < calls.size(); ++place) {
      const uint32_t index = calls[place];
      clock_.next_call();
      const bool is_by_limits = api::concerns_limits(batch.calls[index].op);
      if (!is_by_limits && undecided_.is_behind_own(batch, index, group_.hashes(place))) continue;
      decide_one(batch, index, place, origin);
    }
  }
  undecided_.end_list(batch);
}

void Engine::decide_other(QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  if (api::is_administrative(call.op) && (call.flags & api::quota_flag::not_durable) != 0) {
    answer.code = QuotaCode::not_durable;
    answer.retry_after_ms = limits::unknown_retry_after_ms;
    return;
  }
  switch (call.op) {
    case QuotaOp::reserve:
    case QuotaOp::consume:
    case QuotaOp::settle:
      return;
    case QuotaOp::check:
      return check(batch, index, hashes);
    case QuotaOp::record:
      return record(batch, index, hashes);
    case QuotaOp::cancel:
      return on_ended(batch, index, lifecycle_.cancel(call, answer));
    case QuotaOp::extend:
      return on_ended(batch, index, lifecycle_.extend(call, answer));
    case QuotaOp::show:
    case QuotaOp::usage:
    case QuotaOp::page:
    case QuotaOp::position:
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
    case QuotaOp::end_part:
      if (lifecycle_.end_part(call)) server_.serve_marked();
      answer.code = QuotaCode::ok;
      return;
    case QuotaOp::extend_part:
      return lifecycle_.extend_part(call, answer);
    case QuotaOp::expire_part:
      if (lifecycle_.expire_part(call, batch.stays_here)) server_.serve_marked();
      answer.code = QuotaCode::ok;
      return;
    case QuotaOp::part_fits:
      spread_waiters_.note_fits(call);
      answer.code = QuotaCode::ok;
      return;
    case QuotaOp::part_is_out:
      spread_waiters_.note_out(call);
      answer.code = QuotaCode::ok;
      return;
    case QuotaOp::leave_queues:
      if (queues_.has_arrived_as(call.waiter, api::arrival_that_leaves(call))) {
        server_.leave(call.waiter);
      }
      answer.code = QuotaCode::ok;
      return;
    case QuotaOp::leave_node:  // its worker has it leave (VisitedWaiters)
      answer.code = QuotaCode::ok;
      return;
    case QuotaOp::end_binding:
      if (lifecycle_.end_connection(call.binding)) server_.serve_marked();
      answer.code = QuotaCode::ok;
      return;
  }
}

void Engine::end_parts(QuotaBatch& batch) noexcept {
  const auto fetch_ahead = [&](auto fetch) {
    for (const api::PartEnd& end : batch.part_ends) {
      if (end.shard == options_.shard) fetch(batch.calls[end.call].reservation);
    }
  };
  fetch_ahead([this](uint64_t id) { reservations_.prefetch_id(id); });
  fetch_ahead([this](uint64_t id) { reservations_.prefetch(id, 0); });
  for (const api::PartEnd& end : batch.part_ends) {
    if (end.shard != options_.shard) continue;
    clock_.next_call();
    lifecycle_.end_part(batch.calls[end.call], batch.answers[end.call], end.left_ms);
  }
  server_.serve_marked();
}

// Homes whose parts on other nodes are extended.
void Engine::finish_extends(QuotaBatch& batch) noexcept {
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    const QuotaCall& call = batch.calls[index];
    if (call.shard != options_.shard || !awaits_home(batch, index)) continue;
    clock_.next_call();
    lifecycle_.finish_extend(call, batch.answers[index]);
  }
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
  if (call.op == QuotaOp::position) return answer_position(batch, index, hashes);
  answer_holders(batch, index, hashes, sources());
}

// A call that waits on several shards is in the queues of each under the same id.
void Engine::answer_position(QuotaBatch& batch, size_t index,
                             const SubjectHashes& hashes) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  const Request request = resolver_.request_of(batch, call, no_limited_subjects);
  // While the shards are asked for it, it is a hold in place of a waiter.
  if (undecided_.awaits_first({batch, index, no_limited_subjects, request})) return;
  answer.code = QuotaCode::ok;
  const auto found = repeats_.find(request);
  const SubjectIndex subject = subjects_.find(hashes[call.place]);
  if (!found || !found->is_waiter || subject == no_subject) return;
  answer.position = queues_.position(found->index, subject);
  batch.limits_checked += answer.position / queue_steps_a_limit;
}

// Sets and counts the outcome of a call that asks for admission.
inline void Engine::set_outcome(QuotaOp op, QuotaCode code, QuotaAnswer& answer) noexcept {
  ++statistics_.outcomes(op)[static_cast<size_t>(code)];
  answer.code = code;
  if (!api::admits(code) && code != QuotaCode::queued) set_retry_after(answer);
}

// The request was charged: opens its reservation, or remembers its id.
inline void Engine::admit(const Request& request, const LimitedSubjects& limited,
                          const QuotaBatch& batch, size_t index, QuotaAnswer& answer) noexcept {
  const QuotaCall& call = batch.calls[index];
  const QuotaCode code = admission_code(limited);
  if (!request.is_used) {
    const Reservation& made = reservations_.open(request, code, call.owner);
    answer.reservation = made.id;
    answer.state = api::ReservationState::open;
    answer.lifetime_ms = request.lifetime_ms;
  } else if (request.id.is_set()) {
    reservations_.remember(request, code);
  }
  if (queues_.have_waiters()) queues_.count_overtaking(limited, batch.arrival_of(index));
  set_outcome(call.op, code, answer);
}

// A denial leaves no trace.
bool Engine::charge_and_log(const LimitedSubjects& limited,
                            const limiter::Shares& shares) noexcept {
  subjects_.copy_first(limited);
  if (!charge_if_fits(limited, shares, clock_.moment())) return false;
  subjects_.touch(limited);
  return true;
}

// Whether it fits; charges it, unless there is no place for it.
inline bool Engine::fits(const Request& request, const LimitedSubjects& limited,
                         const limiter::Shares& shares, bool has_place) noexcept {
  const limiter::Moment& now = clock_.moment();
  if (has_place && !request.is_used) {
    return log_.is_on() ? charge_and_log(limited, shares) : charge_if_fits(limited, shares, now);
  }
  if (!subjects_fit(limited, shares, now)) return false;
  if (!has_place) return true;
  subjects_.touch(limited);
  charge_used(limited, shares, now);
  return true;
}

// Reserves or consumes.
void Engine::ask_admission(QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
                           api::ShardId origin) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  LimitedSubjects limited;
  const QuotaCode gathered = resolver_.find_subjects(batch, call, hashes, IfAbsent::make, limited);
  if (gathered != QuotaCode::ok) return set_outcome(call.op, gathered, answer);
  const Request request = resolver_.request_of(batch, call, limited);
  const AskedCall asked{batch, index, limited, request};
  if (undecided_.have_claims() && undecided_.is_behind_own(asked)) return;
  if (request.id.is_set() && undecided_.awaits_first(asked)) return;
  const limiter::Shares shares = request.shares();
  if (request.id.is_set() && repeats_.answer(request, answer)) {
    set_outcome(call.op, answer.code, answer);
  } else {
    const bool have_waiters = queues_.have_waiters();
    const bool must_wait = have_waiters && queues_.must_wait(limited, batch.arrival_of(index));
    if (have_waiters && !must_wait && undecided_.awaits_overtaking(asked)) return;
    if (undecided_.have_claims() && !must_wait && undecided_.is_behind_claims(asked)) return;
    const bool has_place = !request.needs_place() || reservations_.has_room();
    if (must_wait || !fits(request, limited, shares, has_place)) {
      if (undecided_.awaits_holds(asked, must_wait)) return;
      refuse(batch, index, limited, request, origin);
    } else if (has_place) {
      admit(request, limited, batch, index, answer);
    } else if (undecided_.awaits_place(asked)) {
      return;
    } else {
      set_outcome(call.op, QuotaCode::reservations_full, answer);
    }
  }
  if (api::admits(answer.code) && (call.flags & api::quota_flag::wants_limits) != 0) {
    answer_limits(answer, batch.limits, limited, shares, ReportedLimits::all, sources());
  }
}

// What is in the way of a request that does not fit, or has waiters ahead; what others hold is not:
// then it would await their verdict.
Obstacle Engine::obstacle_of(const LimitedSubjects& own, const Request& request) noexcept {
  Obstacle obstacle = find_obstacle(own, request.shares(), clock_.moment());
  if (obstacle.code == QuotaCode::ok) server_.set_queue_ahead(obstacle, own);
  return obstacle;
}

// The request does not fit, or others wait: it waits too if it may, else it is denied.
void Engine::refuse(QuotaBatch& batch, size_t index, const LimitedSubjects& limited,
                    const Request& request, api::ShardId origin) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  const LimitedSubjects own = without_holds(limited);
  const Obstacle obstacle = obstacle_of(own, request);
  QuotaCode code = obstacle.code;
  if ((call.flags & api::quota_flag::may_wait) != 0) {
    code = server_.join({call, origin, batch.arrival_of(index)}, request, obstacle, answer);
    const bool lends = code == QuotaCode::queued && !batch.wait_answers.empty();
    if (lends) queues_[answer.waiter].answer = batch.wait_answers[index];
  }
  set_outcome(call.op, code, answer);
  if (code != QuotaCode::queued) deny(batch, index, own, request, code, obstacle);
}

void Engine::deny(QuotaBatch& batch, size_t index, const LimitedSubjects& limited,
                  const Request& request, QuotaCode code, const Obstacle& obstacle) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  answer.code = code;
  answer.retry_after_ms = retry_after_ms_of(code, obstacle, clock_.ns());
  if ((call.flags & (api::quota_flag::wants_violated | api::quota_flag::wants_limits)) != 0) {
    const bool wants_all = (call.flags & api::quota_flag::wants_limits) != 0;
    answer_limits(answer, batch.limits, limited, request.shares(),
                  wants_all ? ReportedLimits::all : ReportedLimits::violated, sources());
  }
}

void Engine::check(QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  LimitedSubjects limited;
  answer.code = resolver_.find_subjects(batch, call, hashes, IfAbsent::only_find, limited);
  if (answer.code != QuotaCode::ok) return set_retry_after(answer);
  answer.code = QuotaCode::none;
  const Request request = resolver_.request_of(batch, call, limited);
  const AskedCall asked{batch, index, limited, request};
  if (undecided_.have_claims() && undecided_.is_behind_own(asked)) return;
  if (request.id.is_set() && undecided_.awaits_first(asked)) return;
  if (const auto found = repeats_.find(request)) {
    answer.code = repeats_.code(request, *found);
    if (answer.code == QuotaCode::id_in_use) set_retry_after(answer);
  } else {
    const limiter::Shares shares = request.shares();
    const bool must_wait = queues_.must_wait(limited, batch.arrival_of(index));
    if (undecided_.have_claims() && !must_wait && undecided_.is_behind_claims(asked)) return;
    if (must_wait || !subjects_fit(limited, shares, clock_.moment())) {
      if (undecided_.awaits_holds(asked, must_wait)) return;
      const LimitedSubjects own = without_holds(limited);
      const Obstacle obstacle = obstacle_of(own, request);
      return deny(batch, index, own, request, obstacle.code, obstacle);
    }
    answer.code = admission_code(limited);
  }
  if (!api::admits(answer.code)) return;
  if ((call.flags & api::quota_flag::wants_limits) != 0) {
    answer_limits(answer, batch.limits, limited, request.shares(), ReportedLimits::all, sources());
  }
}

void Engine::record(QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  LimitedSubjects limited;
  answer.code = resolver_.find_subjects(batch, call, hashes, IfAbsent::make, limited);
  if (answer.code != QuotaCode::ok) return set_retry_after(answer);
  answer.code = QuotaCode::none;
  const Request request = resolver_.request_of(batch, call, limited);
  const AskedCall asked{batch, index, limited, request};
  if (undecided_.have_claims() && undecided_.is_behind_own(asked)) return;
  if (request.id.is_set() && undecided_.awaits_first(asked)) return;
  const limiter::Shares shares = request.shares();
  if (request.id.is_set() && repeats_.answer(request, answer)) {
    if (!api::admits(answer.code)) return set_retry_after(answer);
  } else if (request.needs_place() && !reservations_.has_room()) {
    if (undecided_.awaits_place(asked)) return;
    answer.code = QuotaCode::reservations_full;
    return set_retry_after(answer);
  } else {
    subjects_.touch(limited);
    charge_used(limited, shares, clock_.moment());
    ++statistics_.recorded;
    answer.code = admission_code(limited);
    if (request.id.is_set()) reservations_.remember(request, answer.code);
  }
  if ((call.flags & api::quota_flag::wants_limits) != 0) {
    answer_limits(answer, batch.limits, limited, shares, ReportedLimits::all, sources());
  }
}

}  // namespace sluice::quota
