#include "server/node_visits.hpp"

#include <algorithm>
#include <utility>

#include "base/limits.hpp"
#include "quota/spread_round.hpp"
#include "server/visit_times.hpp"
#include "wire/forward_quota.hpp"

namespace sluice::server {

using api::Pass;
using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::SpreadCall;
using State = SpreadCall::State;

namespace {

// The stop's first subject: what is held there has its place in the call.
uint8_t place_at(const QuotaBatch& batch, uint32_t call, uint32_t stop) noexcept {
  return quota::first_place(batch.calls[call], batch.spread[call], static_cast<api::ShardId>(stop));
}

uint8_t subjects_at(const QuotaCall& call, const SpreadCall& spread, uint32_t stop) noexcept {
  uint8_t bits = 0;
  for (uint8_t place = 0; place < call.subjects_count; ++place) {
    if (spread.shards[place] == stop) bits |= static_cast<uint8_t>(1U << place);
  }
  return bits;
}

// A batch that awaits a verdict does so for its first call.
bool takes_part(const QuotaBatch& batch, uint32_t call, uint32_t stop) noexcept {
  if (batch.pass == Pass::await) return call == batch.undecided.front();
  return quota::has_share(batch, call, static_cast<api::ShardId>(stop));
}

// To another node: the end of its part of a reservation, or its extension.
QuotaCall part_call(const QuotaBatch& batch, const api::PartEnd& end) noexcept {
  const QuotaCall& call = batch.calls[end.call];
  const api::QuotaAnswer& answer = batch.answers[end.call];
  if (call.op == QuotaOp::extend) {
    return {
        .op = QuotaOp::extend_part, .lifetime_ms = end.left_ms, .reservation = call.reservation};
  }
  const bool is_cancelled = answer.state == api::ReservationState::cancelled;
  return {.op = QuotaOp::end_part,
          .flags = is_cancelled ? api::quota_flag::cancels : uint8_t{0},
          .lifetime_ms = end.left_ms,
          .amounts = answer.amounts,
          .cached_input_tokens = call.cached_input_tokens,
          .reservation = call.reservation};
}

// The places that the shards of a node have, if the call has to wait.
void take_waiters(const SpreadCall& from, uint8_t subjects_there, uint32_t call, SpreadCall& to) {
  to.fit_bits |= from.fit_bits & subjects_there;
  for (uint8_t place = 1; place < limits::call_subjects_max; ++place) {
    const bool waits = (subjects_there & 1U << place) != 0 && from.waiters[place] != api::no_waiter;
    if (waits && !to.is_try) to.waiters[place] = call;
  }
}

// A node that takes no place for a call that may wait, and names no reason, is full.
void note_missing_places(const QuotaCall& call, SpreadCall& part) noexcept {
  const bool is_decided =
      part.is_repeat || part.awaits() || part.problem != QuotaCode::ok || part.is_try;
  if (is_decided || !api::may_wait(call) || part.no_waiter_code != QuotaCode::none) return;
  if (!api::waits_beside_home(part)) part.no_waiter_code = QuotaCode::waiters_full;
}

// What a node says of a part, which knows what the stops before it have said.
void take_part(const SpreadCall& from, uint8_t place, uint32_t stop, SpreadCall& to) noexcept {
  to.has_quota = from.has_quota;
  to.limits_anything = from.limits_anything;
  to.reservations_full = from.reservations_full;
  to.awaits_own = from.awaits_own;
  to.awaits_others = from.awaits_others;
  if (from.awaits_others) to.awaits_at = static_cast<api::ShardId>(stop);
  to.is_repeat = from.is_repeat && !to.is_try;  // nobody has decided before what waits
  to.problem = from.problem;
  to.problem_place = from.problem_place;
  to.code = from.code;
  to.no_waiter_code = from.no_waiter_code;
  to.fits_at_ns = from.fits_at_ns;
  to.earliest_ns = from.earliest_ns;
  to.queue_fits_at_ns = from.queue_fits_at_ns;
  to.output_tokens = std::min(to.output_tokens, from.output_tokens);
  to.holds[place] = api::holds_anything(from) ? SpreadCall::without_hold : SpreadCall::no_hold;
}

}  // namespace

NodeVisits::NodeVisits(const route::Mailboxes& mailboxes, NodeCalls& calls,
                       const peer::FleetOptions& fleet)
    : mailboxes_(mailboxes),
      calls_(calls),
      policy_(fleet.on_failure),
      timeout_ms_(fleet.timeout_ms) {}

// --- There ---------------------------------------------------------------------------------

NodeVisits::Visit& NodeVisits::take(QuotaTask& task) {
  if (free_.empty()) {
    parcels_.push_back(std::make_unique<Visit>());
    free_.push_back(parcels_.back().get());
  }
  Visit& visit = *free_.back();
  free_.pop_back();
  visit.batch.clear();
  visit.batch.spread.clear();
  visit.batch.part_reports.clear();
  visit.ends.clear();
  visit.task = &task;
  visit.of = peer::QuotaParcel::Of::visit;
  visit.has_caller = task.asker.has_value();
  visit.timeout_ms = timeout_ms_;
  visit.is_sent = false;
  return visit;
}

bool NodeVisits::visit(QuotaTask& task, base::Now now) {
  Visit& visit = take(task);
  if (task.batch.pass == Pass::end) {
    fill_ends(visit);
  } else {
    fill(visit, now);
  }
  if (wire::forward_quota_bytes(visit.batch) > limits::frame_bytes_max) {
    on_unanswered(visit);
    free_.push_back(&visit);
    return false;
  }
  visit.is_sent = true;
  sender_->post(visit);
  return true;
}

// Of its first call. A waiter has come in a batch, perhaps behind others.
uint64_t NodeVisits::number_of_batch(const QuotaTask& task) noexcept {
  const QuotaBatch& batch = task.batch;
  const SpreadCall& first = batch.spread.front();
  if (!first.is_try) return batch.arrival.number;
  for (uint8_t place = 1; place < batch.calls.front().subjects_count; ++place) {
    const bool is_there = first.shards[place] == task.shard;
    if (is_there && first.waiters[place] != api::no_waiter) {
      return batch.arrival.number - first.waiters[place];
    }
  }
  return batch.arrival.number;
}

// Each round has a number of its own: what a node still holds of an earlier one, whose verdict it
// has missed, is not taken for this one's.
void NodeVisits::note_round(QuotaTask& task, base::Now now) noexcept {
  if (std::exchange(task.visited_round, task.batch.rounds_count) == task.batch.rounds_count) return;
  task.visits_number = ++last_number_;
  task.asks_until_ns = now.monotonic_ns + timeout_ms_ * 3 / 4 * base::ns_per_ms;
}

// Those that are asked hold what fits until the verdict, but not for longer than the time-out: all
// have to be asked well before it is over.
int64_t NodeVisits::timeout_ms(const QuotaTask& task, base::Now now) const noexcept {
  if (task.batch.pass != Pass::look && task.batch.pass != Pass::ask) return timeout_ms_;
  return std::max<int64_t>((task.asks_until_ns - now.monotonic_ns) / base::ns_per_ms, 1);
}

void NodeVisits::fill(Visit& visit, base::Now now) {
  QuotaTask& task = *visit.task;
  note_round(task, now);
  visit.timeout_ms = timeout_ms(task, now);
  const QuotaBatch& from = task.batch;
  QuotaBatch& to = visit.batch;
  to.pass = from.pass;
  to.arrival = from.arrival;
  to.asker = from.asker;
  to.visit = {.number = task.visits_number, .home = mailboxes_.nodes().own_node()};
  for (const uint32_t place : from.round()) {
    if (takes_part(from, place, task.shard)) add(visit, place, now);
  }
  // The worker there that has the batch's parts.
  visit.target =
      mailboxes_.nodes().target_of_number(api::node_of_stop(task.shard), number_of_batch(task));
}

// Only the home has the holder of a reservation, and its connection.
void NodeVisits::add(Visit& visit, uint32_t place, base::Now now) {
  const QuotaTask& task = *visit.task;
  const QuotaBatch& from = task.batch;
  QuotaBatch& to = visit.batch;
  QuotaCall& call = to.calls.emplace_back(from.calls[place]);
  const auto names = std::span(from.subjects).subspan(call.first_subject, call.subjects_count);
  call.first_subject = static_cast<uint32_t>(to.subjects.size());
  call.owner = {};
  call.binding = 0;
  to.subjects.insert(to.subjects.end(), names.begin(), names.end());
  SpreadCall& part = to.spread.emplace_back(from.spread[place]);
  part.holds.fill(SpreadCall::no_hold);
  part.home_shard = static_cast<uint8_t>(part.home());
  make_relative(part, now);
  if (part.lifetime_ms != 0) call.lifetime_ms = part.lifetime_ms;
  to.answers.push_back({.code = from.answers[place].code});
  to.visit.places.push_back(place);
  to.visit.subject_bits.push_back(subjects_at(from.calls[place], from.spread[place], task.shard));
}

// As many as a frame may have: the others are for the next visit.
void NodeVisits::fill_ends(Visit& visit) {
  const QuotaTask& task = *visit.task;
  QuotaBatch& from = visit.task->batch;
  for (uint32_t end = 0; end < from.part_ends.size(); ++end) {
    if (from.part_ends[end].shard != task.shard || from.part_ends[end].is_sent) continue;
    if (visit.ends.size() == wire::forwarded_calls_max) break;
    from.part_ends[end].is_sent = true;
    visit.batch.calls.push_back(part_call(from, from.part_ends[end]));
    visit.ends.push_back(end);
  }
  visit.target = mailboxes_.nodes().target_of_reservation(api::node_of_stop(task.shard),
                                                          visit.batch.calls.front().reservation);
}

// --- Back ----------------------------------------------------------------------------------

QuotaTask& NodeVisits::on_returned(peer::QuotaParcel& parcel, base::Now now) {
  auto& visit = static_cast<Visit&>(parcel);
  QuotaTask& task = *visit.task;
  const bool is_late_verdict =
      visit.batch.pass == Pass::apply && visit.batch.visit.is_set() && !visit.batch.visit.is_known;
  if (!visit.ends.empty()) {
    on_ends_returned(visit);
  } else if (visit.is_answered && !is_late_verdict) {
    on_answered(visit, now);
  } else {
    on_unanswered(visit);
  }
  free_.push_back(&visit);
  return task;
}

void NodeVisits::on_answered(Visit& visit, base::Now now) {
  QuotaTask& task = *visit.task;
  QuotaBatch& to = task.batch;
  QuotaBatch& from = visit.batch;
  for (size_t index = 0; index < from.calls.size(); ++index) {
    const uint32_t place = from.visit.places[index];
    api::QuotaAnswer& answer = to.answers[place];
    answer.limits_left_out |= from.answers[index].limits_left_out;
    if (from.pass == Pass::apply || from.pass == Pass::await) continue;
    make_absolute(from.spread[index], now);
    note_lost_waiter(from.calls[index].op, to.spread[place], from.spread[index]);
    if (from.pass == Pass::ask) note_missing_places(from.calls[index], from.spread[index]);
    take_waiters(from.spread[index], from.visit.subject_bits[index], place, to.spread[place]);
    take_part(from.spread[index], place_at(to, place, task.shard), task.shard, to.spread[place]);
    if (to.spread[place].is_repeat) answer.code = from.answers[index].code;
  }
  for (api::PartReport report : from.part_reports) {
    report.call = from.visit.places[report.call];
    if (to.part_reports.size() < limits::quota_reports_max) {
      to.part_reports.push_back(report);
    } else {
      to.answers[report.call].limits_left_out = true;
    }
  }
}

// The node does not know the waiter any more, as if it had not answered.
void NodeVisits::note_lost_waiter(QuotaOp op, const SpreadCall& asked, SpreadCall& part) noexcept {
  const bool is_lost = asked.is_try && asked.problem == QuotaCode::ok &&
                       part.problem == QuotaCode::owner_unreachable;
  if (is_lost) part.problem = policy_.answer(op).code;
}

void NodeVisits::on_unanswered(Visit& visit) {
  QuotaTask& task = *visit.task;
  for (const uint32_t place : visit.batch.visit.places) {
    if (visit.batch.pass == Pass::look || visit.batch.pass == Pass::ask) {
      on_unanswered_ask(task, place);
      if (visit.is_sent && visit.batch.pass == Pass::ask) refund(task, place);
    } else if (visit.batch.pass == Pass::apply) {
      on_unanswered_verdict(task, place);
    }
  }
}

// The call cannot be admitted without its part there.
void NodeVisits::on_unanswered_ask(QuotaTask& task, uint32_t place) {
  SpreadCall& spread = task.batch.spread[place];
  const uint8_t subject = place_at(task.batch, place, task.shard);
  if (spread.problem == QuotaCode::ok || subject < spread.problem_place) {
    spread.problem = policy_.answer(task.batch.calls[place].op).code;
    spread.problem_place = subject;
  }
}

// It may have its part, or not: the call is ended, and all its parts are cancelled. What was
// charged without a reservation or an id stays: such a call is not admitted in a later round, in
// which it would be charged once more.
void NodeVisits::on_unanswered_verdict(QuotaTask& task, uint32_t place) {
  const QuotaCall& call = task.batch.calls[place];
  SpreadCall& spread = task.batch.spread[place];
  const bool may_stay = api::charges_used(call.op) && call.client_id.empty();
  const QuotaCode failure = policy_.answer(call.op).code;
  if (spread.state == State::admitted ||
      (may_stay && !spread.is_try && spread.state == State::refused)) {
    task.failed.push_back({.place = place, .code = failure});
    return;
  }
  if (!may_stay || spread.state != State::undecided) return refund(task, place);
  spread.is_unconfirmed = true;
  spread.problem = failure;
  spread.problem_place = place_at(task.batch, place, task.shard);
}

// The node may have held the part; after a time without a verdict it counts as charged.
void NodeVisits::refund(const QuotaTask& task, uint32_t place) {
  const SpreadCall& spread = task.batch.spread[place];
  if (spread.reservation == 0) return;
  calls_.repeat({.op = QuotaOp::end_part,
                 .flags = api::quota_flag::cancels,
                 .amounts = {.requests = 0},
                 .reservation = spread.reservation},
                api::node_of_stop(task.shard), spread.lifetime_ms);
}

// Ends hold at home already, and are repeated until the node has them, too. An extension that
// misses a part is none.
void NodeVisits::on_ends_returned(Visit& visit) {
  QuotaBatch& to = visit.task->batch;
  for (size_t index = 0; index < visit.ends.size(); ++index) {
    const api::PartEnd& end = to.part_ends[visit.ends[index]];
    const QuotaCall& call = visit.batch.calls[index];
    api::QuotaAnswer& answer = to.answers[end.call];
    if (call.op == QuotaOp::extend_part) {
      const QuotaCode code = visit.is_answered ? visit.batch.answers[index].code
                                               : policy_.answer(QuotaOp::extend).code;
      if (code == QuotaCode::ok || answer.code != QuotaCode::ok) continue;
      answer.code = code == QuotaCode::unknown_reservation ? QuotaCode::already_expired : code;
      answer.lifetime_ms = 0;
    } else if (!visit.is_answered) {
      calls_.repeat(call, api::node_of_stop(visit.task->shard), end.left_ms);
    }
  }
}

}  // namespace sluice::server
