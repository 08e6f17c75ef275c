#include "server/visited_waiters.hpp"

#include <algorithm>
#include <iterator>

namespace sluice::server {

using api::Arrival;
using api::QuotaOp;
using api::SpreadCall;
using State = SpreadCall::State;

namespace {

// The first place is the home's.
bool has_part_here(const SpreadCall& part) noexcept {
  return std::any_of(part.waiters.begin() + 1, part.waiters.end(),
                     [](api::WaiterId waiter) { return waiter != api::no_waiter; });
}

}  // namespace

void VisitedWaiters::note_verdicts(const api::QuotaBatch& batch, base::Now now) {
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    const SpreadCall& part = batch.spread[index];
    const bool joined = !part.is_try && part.state == State::queued && has_part_here(part);
    if (joined) add(batch.arrival_of(index), part, now);
    if (part.is_try && part.state == State::admitted) remove(batch.arrival_of(index));
  }
}

// A home that has started again may give a number once more: what it had before is gone.
void VisitedWaiters::add(const Arrival& arrival, const SpreadCall& part, base::Now now) {
  leave(arrival.number);
  by_time_.push_back({.arrival = arrival,
                      .until_ns = now.monotonic_ns + kept_ns_,
                      .shards = part.shards,
                      .waiters = part.waiters});
  by_number_[arrival.number] = std::prev(by_time_.end());
}

bool VisitedWaiters::find(const api::QuotaBatch& batch, size_t index, SpreadCall& part,
                          base::Now now) {
  const Arrival arrival = batch.arrival_of(index);
  const auto found = by_number_.find(arrival.number);
  if (found == by_number_.end() || found->second->arrival != arrival) return false;
  Entry& entry = *found->second;
  const api::WaiterId home = part.waiters[0];
  part.shards = entry.shards;
  part.waiters = entry.waiters;
  part.waiters[0] = home;
  entry.until_ns = now.monotonic_ns + kept_ns_;
  by_time_.splice(by_time_.end(), by_time_, found->second);
  return true;
}

void VisitedWaiters::remove(const Arrival& arrival) {
  const auto found = by_number_.find(arrival.number);
  if (found == by_number_.end() || found->second->arrival != arrival) return;
  by_time_.erase(found->second);
  by_number_.erase(found);
}

void VisitedWaiters::leave(uint64_t arrival_number) {
  const auto found = by_number_.find(arrival_number);
  if (found == by_number_.end()) return;
  leave_shards(*found->second);
  by_time_.erase(found->second);
  by_number_.erase(found);
}

void VisitedWaiters::leave_shards(const Entry& entry) {
  for (size_t place = 1; place < entry.waiters.size(); ++place) {
    if (entry.waiters[place] == api::no_waiter) continue;
    outgoing_.push_back({.op = QuotaOp::leave_queues,
                         .shard = entry.shards[place],
                         .waiter = entry.waiters[place],
                         .cursor = entry.arrival.number});
  }
}

void VisitedWaiters::leave_overdue(base::Now now) {
  while (!by_time_.empty() && by_time_.front().until_ns <= now.monotonic_ns) {
    leave(by_time_.front().arrival.number);
  }
}

}  // namespace sluice::server
