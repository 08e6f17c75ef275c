#include "server/visited_waiters.hpp"

#include <iterator>

namespace sluice::server {

using api::Arrival;
using api::QuotaOp;
using api::SpreadCall;
using State = SpreadCall::State;

void VisitedWaiters::note_verdicts(const api::QuotaBatch& batch, base::Now now) {
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    const SpreadCall& part = batch.spread[index];
    const bool joined = !part.is_try && part.state == State::queued && api::waits_beside_home(part);
    if (joined) add(batch.arrival_of(index), part, now);
    if (part.is_try && part.state == State::admitted) note_admitted(batch, index);
  }
}

// What its home has admitted was held by all shards, and has left with the charge. Without a
// verdict some may have held nothing, and still have their parts.
void VisitedWaiters::note_admitted(const api::QuotaBatch& batch, size_t index) {
  const auto found = find(batch.arrival_of(index));
  if (found == by_number_.end()) return;
  if (!batch.visit.is_known) leave_shards(*found->second);
  remove(found);
}

// A home that has started again may give a number once more: what it had before is gone.
void VisitedWaiters::add(const Arrival& arrival, const SpreadCall& part, base::Now now) {
  leave_at(by_number_.find(arrival.number));
  by_time_.push_back({.arrival = arrival,
                      .until_ns = now.monotonic_ns + kept_ns_,
                      .shards = part.shards,
                      .waiters = part.waiters});
  by_number_[arrival.number] = std::prev(by_time_.end());
}

bool VisitedWaiters::find(const api::QuotaBatch& batch, size_t index, SpreadCall& part,
                          base::Now now) {
  const auto found = find(batch.arrival_of(index));
  if (found == by_number_.end()) return false;
  Entry& entry = *found->second;
  const api::WaiterId home = part.waiters[0];
  part.shards = entry.shards;
  part.waiters = entry.waiters;
  part.waiters[0] = home;
  entry.until_ns = now.monotonic_ns + kept_ns_;
  by_time_.splice(by_time_.end(), by_time_, found->second);
  return true;
}

VisitedWaiters::ByNumber::iterator VisitedWaiters::find(const Arrival& arrival) noexcept {
  const auto found = by_number_.find(arrival.number);
  const bool is_it = found != by_number_.end() && found->second->arrival == arrival;
  return is_it ? found : by_number_.end();
}

void VisitedWaiters::remove(ByNumber::iterator at) {
  by_time_.erase(at->second);
  by_number_.erase(at);
}

void VisitedWaiters::leave(const Arrival& arrival) {
  leave_at(find(arrival));
}

void VisitedWaiters::leave_at(ByNumber::iterator at) {
  if (at == by_number_.end()) return;
  leave_shards(*at->second);
  remove(at);
}

void VisitedWaiters::leave_shards(const Entry& entry) {
  for (size_t place = 1; place < entry.waiters.size(); ++place) {
    if (entry.waiters[place] == api::no_waiter) continue;
    outgoing_.push_back({.op = QuotaOp::leave_queues,
                         .shard = entry.shards[place],
                         .waiter = entry.waiters[place],
                         .cursor = entry.arrival.number,
                         .arrival_ns = entry.arrival.ns});
  }
}

void VisitedWaiters::leave_overdue(base::Now now) {
  while (!by_time_.empty() && by_time_.front().until_ns <= now.monotonic_ns) {
    leave(by_time_.front().arrival);
  }
}

}  // namespace sluice::server
