// The parts that wait in this node's queues for calls whose home is another node, and where they
// are.
// Flow:   the verdict on a call is that it waits -> note_verdicts() -> the home tries it: find() ->
//         the verdict admits it, or the home has it leave: leave().
// Shape:  by the number of the call's arrival, which no other call of any node has: but one of a
//         home that has started again, at another time. The worker that had the batch's parts has
//         these, too: tries come to it.
// Errors: a part that its home has not asked about for waiter_kept_timeouts leaves its queues: the
//         home is gone, or has ended the call because this node did not answer.
// Bounds: the places for waiters that the shards have.
// Lives:  one per worker, one thread only. Allocates, as calls over several nodes may.
// Source: docs/adr/0036-waiting-over-several-nodes.md.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <unordered_map>

#include "api/quota.hpp"
#include "base/time.hpp"

namespace sluice::server {

// A home asks about its waiters' parts so often, at least, and a node keeps them for so long. In
// time-outs of an answer, which all nodes have in common: RulesCheck warns of one that differs.
inline constexpr int64_t waiter_renewal_timeouts = 2;
inline constexpr int64_t waiter_kept_timeouts = 8;

class VisitedWaiters {
 public:
  // `outgoing`: calls to this node's shards.
  VisitedWaiters(std::deque<api::QuotaCall>& outgoing, int64_t timeout_ms) noexcept
      : outgoing_(outgoing), kept_ns_(waiter_kept_timeouts * timeout_ms * base::ns_per_ms) {}

  // The shards have applied the verdicts of a visit.
  void note_verdicts(const api::QuotaBatch& batch, base::Now now);
  // The parts of a call that is tried: their shards and places. False: they are not here any more.
  bool find(const api::QuotaBatch& batch, size_t index, api::SpreadCall& part, base::Now now);
  // The home's waiter has left.
  void leave(const api::Arrival& arrival);
  void leave_overdue(base::Now now);

  bool is_empty() const noexcept { return by_time_.empty(); }

 private:
  struct Entry {
    api::Arrival arrival;
    int64_t until_ns = 0;
    std::array<api::ShardId, limits::call_subjects_max> shards{};
    std::array<api::WaiterId, limits::call_subjects_max> waiters{};
  };
  using ByTime = std::list<Entry>;  // the first to be over comes first

  using ByNumber = std::unordered_map<uint64_t, ByTime::iterator>;

  void add(const api::Arrival& arrival, const api::SpreadCall& part, base::Now now);
  void note_admitted(const api::QuotaBatch& batch, size_t index);
  ByNumber::iterator find(const api::Arrival& arrival) noexcept;
  void leave_at(ByNumber::iterator at);
  void remove(ByNumber::iterator at);
  void leave_shards(const Entry& entry);

  std::deque<api::QuotaCall>& outgoing_;
  const int64_t kept_ns_;
  ByTime by_time_;
  ByNumber by_number_;
};

}  // namespace sluice::server
