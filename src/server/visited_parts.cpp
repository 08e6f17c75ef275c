#include "server/visited_parts.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "io/socket_options.hpp"

namespace sluice::server {

using api::Pass;
using api::QuotaBatch;
using api::SpreadCall;
using State = SpreadCall::State;

namespace {

bool is_of_one_batch(const QuotaBatch& one, const QuotaBatch& other) noexcept {
  return one.arrival == other.arrival;
}
bool is_of_one_round(const QuotaBatch& one, const QuotaBatch& other) noexcept {
  return one.visit.number == other.visit.number && one.visit.sender == other.visit.sender;
}

// The call with that place in the batch at home. Null: it is not one of these.
SpreadCall* find(QuotaBatch& batch, uint32_t place) noexcept {
  const auto at = std::ranges::find(batch.visit.places, place);
  return at == batch.visit.places.end()
             ? nullptr
             : &batch.spread[static_cast<size_t>(at - batch.visit.places.begin())];
}

// What only this node's shards know of it.
void move_held(SpreadCall& from, SpreadCall& to) noexcept {
  to.shards = from.shards;
  to.holds = from.holds;
  to.waiters = from.waiters;
  to.fit_bits = from.fit_bits;
  to.kept_bits = from.kept_bits;
  to.charged_bits = from.charged_bits;
  to.awaits_at = from.awaits_at;
  from.holds.fill(SpreadCall::no_hold);
  from.state = State::done;
}

// Of what a verdict charges, or drops.
bool has_hold(const SpreadCall& part) noexcept {
  return std::ranges::any_of(part.holds, [](uint32_t hold) {
    return hold != SpreadCall::no_hold && hold != SpreadCall::without_hold;
  });
}

bool is_left(const SpreadCall& part) noexcept {
  return api::holds_anything(part) || (part.state == State::undecided && part.awaits());
}

// The first shard here that has a part of the call.
std::optional<api::ShardId> shard_of(const QuotaBatch& batch, size_t index) noexcept {
  const auto stops = std::span(batch.spread[index].shards).first(batch.calls[index].subjects_count);
  const auto shard = std::ranges::find_if_not(stops, api::is_node_stop);
  return shard == stops.end() ? std::nullopt : std::optional(*shard);
}

bool holds_any(const QuotaBatch& batch) noexcept {
  return std::ranges::any_of(batch.spread, api::holds_anything);
}
bool has_any_left(const QuotaBatch& batch) noexcept {
  return std::ranges::any_of(batch.spread, is_left);
}

}  // namespace

bool VisitedParts::begin(QuotaTask& task) {
  if (task.batch.pass == Pass::ask) replace_earlier(task);
  leave_out_cancelled(task.batch);
  if (task.batch.pass == Pass::await && !find_awaiting_shard(task.batch)) return false;
  return task.batch.pass != Pass::apply || take_held(task);
}

void VisitedParts::leave_out_cancelled(QuotaBatch& batch) const noexcept {
  if (cancelled_.empty()) return;
  for (SpreadCall& part : batch.spread) {
    if (!is_cancelled(part)) continue;
    part.state = batch.pass == Pass::apply ? State::refused : State::done;
  }
}

// Where the first call awaits a verdict: the home knows the node alone. False: no shard has a part
// of it.
bool VisitedParts::find_awaiting_shard(QuotaBatch& batch) {
  SpreadCall& part = batch.spread.front();
  const std::optional<api::ShardId> shard = shard_of(batch, 0);
  if (!shard) return false;
  part.awaits_at = *shard;
  for (QuotaTask* const kept : kept_) {
    if (!is_of_one_round(kept->batch, batch)) continue;
    const SpreadCall* const asked = find(kept->batch, batch.visit.places.front());
    if (asked != nullptr && asked->awaits_others) part.awaits_at = asked->awaits_at;
  }
  return true;
}

// A call that is asked for again is no longer what it was in an earlier round. One whose part is
// gone, or cancelled, is asked at no shard: what the earlier round awaits is forgotten when it is
// overdue.
void VisitedParts::replace_earlier(const QuotaTask& task) {
  for (auto at = kept_.begin(); at != kept_.end();) {
    QuotaBatch& kept = (*at)->batch;
    const auto here = at++;
    if (!is_of_one_batch(kept, task.batch)) continue;
    for (size_t index = 0; index < task.batch.calls.size(); ++index) {
      if (is_cancelled(task.batch.spread[index]) || !shard_of(task.batch, index)) continue;
      SpreadCall* const earlier = find(kept, task.batch.visit.places[index]);
      if (earlier != nullptr && !api::holds_anything(*earlier)) earlier->state = State::done;
    }
    drop_done(here);
  }
}

// False: nothing is held any more of what the verdicts concern.
bool VisitedParts::take_held(QuotaTask& task) {
  QuotaBatch& batch = task.batch;
  size_t found_count = 0;
  for (SpreadCall& part : batch.spread) part.holds.fill(SpreadCall::no_hold);
  for (auto at = kept_.begin(); at != kept_.end();) {
    QuotaBatch& kept = (*at)->batch;
    const auto here = at++;
    if (!is_of_one_round(kept, batch)) continue;
    for (size_t index = 0; index < batch.calls.size(); ++index) {
      SpreadCall* const held = find(kept, batch.visit.places[index]);
      if (held == nullptr || !api::holds_anything(*held)) continue;
      move_held(*held, batch.spread[index]);
      ++found_count;
    }
    drop_done(here);
  }
  batch.visit.is_known = found_count == batch.calls.size();
  return found_count > 0;
}

void VisitedParts::drop_done(std::list<QuotaTask*>::iterator at) {
  if (has_any_left((*at)->batch)) return;
  pool_.free(**at);
  kept_.erase(at);
}

bool VisitedParts::keep(QuotaTask& task, base::Now now) {
  const bool may_be_left = task.batch.pass == Pass::ask || task.batch.pass == Pass::apply;
  if (!may_be_left || !has_any_left(task.batch)) return false;
  // A home that holds nothing asks again after the same time, at the latest.
  const int64_t times = holds_any(task.batch) ? 1 : 2;
  task.waits_until_ns = now.monotonic_ns + times * verdict_ns_;
  task.asker.reset();
  auto at = kept_.end();
  while (at != kept_.begin() && (*std::prev(at))->waits_until_ns > task.waits_until_ns) --at;
  kept_.insert(at, &task);
  return true;
}

void VisitedParts::leave_forgotten(QuotaBatch& batch) const noexcept {
  std::erase_if(batch.undecided, [&](uint32_t index) {
    return std::ranges::any_of(kept_, [&](QuotaTask* kept) {
      if (!is_of_one_batch(kept->batch, batch)) return false;
      const SpreadCall* const later = find(kept->batch, batch.visit.places[index]);
      return later != nullptr && is_left(*later);
    });
  });
  batch.round_size = static_cast<uint32_t>(batch.undecided.size());
}

// For as long as anything of it may still be under way here: also on a connection that is lost, of
// which the kernel delivers what was written before.
void VisitedParts::note_cancelled(uint64_t reservation, base::Now now) {
  const auto is_over = [&](const Cancelled& oldest) {
    return oldest.until_ns <= now.monotonic_ns || cancelled_.size() == cancelled_max;
  };
  while (!cancelled_since_.empty() && is_over(cancelled_since_.front())) {
    cancelled_.erase(cancelled_since_.front().reservation);
    cancelled_since_.pop_front();
  }
  if (!cancelled_.insert(reservation).second) return;
  const int64_t kept_ns = 2 * verdict_ns_ + io::unacknowledged_ms_max * base::ns_per_ms;
  cancelled_since_.push_back({.reservation = reservation, .until_ns = now.monotonic_ns + kept_ns});
}

QuotaTask* VisitedParts::refuse(uint64_t reservation, base::Now now) {
  if (reservation == 0) return nullptr;
  note_cancelled(reservation, now);
  for (auto at = kept_.begin(); at != kept_.end(); ++at) {
    QuotaBatch& kept = (*at)->batch;
    const auto part = std::ranges::find_if(kept.spread, [&](const SpreadCall& each) {
      return each.reservation == reservation && api::holds_anything(each);
    });
    if (part == kept.spread.end()) continue;
    QuotaTask& task = task_to_refuse(kept, static_cast<size_t>(part - kept.spread.begin()));
    drop_done(at);
    return &task;
  }
  return nullptr;
}

// The verdict on one call of a kept batch. The pool's tasks have what their last passes have left.
QuotaTask& VisitedParts::task_to_refuse(QuotaBatch& kept, size_t index) {
  QuotaTask& task = pool_.take();
  QuotaBatch& batch = task.batch;
  batch = {};
  api::QuotaCall& call = batch.calls.emplace_back(kept.calls[index]);
  const auto names = std::span(kept.subjects).subspan(call.first_subject, call.subjects_count);
  batch.subjects.assign(names.begin(), names.end());
  call.first_subject = 0;
  batch.own_texts();
  batch.arrival = kept.arrival;
  batch.asker = kept.asker;
  batch.pass = Pass::apply;
  batch.visit = kept.visit;
  batch.visit.places = {kept.visit.places[index]};
  batch.visit.subject_bits = {kept.visit.subject_bits[index]};
  batch.undecided.assign(1, 0);
  batch.round_size = 1;
  batch.spread.assign(1, kept.spread[index]);
  batch.answers.assign(1, {.code = api::QuotaCode::withdrawn});
  move_held(kept.spread[index], batch.spread.front());
  batch.spread.front().state = State::refused;
  return task;
}

// Whether a part that has had no verdict counts as charged. One without a reservation to be found
// by is a repeat's, of which the home holds nothing either. Of one that is only here to report its
// limits nothing can be charged: its call is refused, a check, or a try that waits on.
bool VisitedParts::is_charged(const api::QuotaCall& call, const SpreadCall& part) const noexcept {
  const bool is_nobodys = call.op == api::QuotaOp::reserve && part.reservation == 0;
  const bool may_be_charged = has_hold(part) || part.kept_bits != 0;
  return may_be_charged && !is_nobodys && !is_cancelled(part);
}

QuotaTask* VisitedParts::next_overdue(base::Now now) {
  if (kept_.empty() || kept_.front()->waits_until_ns > now.monotonic_ns) return nullptr;
  QuotaTask& task = *kept_.front();
  kept_.pop_front();
  QuotaBatch& batch = task.batch;
  batch.pass = Pass::apply;
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    SpreadCall& part = batch.spread[index];
    if (!api::holds_anything(part)) continue;
    part.state = is_charged(batch.calls[index], part) ? State::admitted : State::refused;
    batch.answers[index].code = api::QuotaCode::ok;
  }
  return &task;
}

}  // namespace sluice::server
