// The parts that this node has of calls whose home is another one.
// Flow:   QuotaTasks: a share that another node asks for -> begin() -> the shards that it concerns
//         -> the answer -> keep(), after an `ask`: shards hold what fits, and remember who waits.
//         The verdict, `apply`, finds it: begin() -> the shards once more.
// Shape:  kept tasks, in the order in which their time is over.
// Errors: without a verdict in time (--peer-timeout-millis) what is held counts as charged: the
//         home may have admitted the call, and its caller may know. A cancel by the home still
//         refunds it: what is held is not charged then, also if it comes to be held later.
// Bounds: that of the pool: without room no ask holds anything. cancelled_max ids of cancelled
//         reservations, of which the oldest is forgotten first: what comes to be held for one that
//         was forgotten is charged.
// Lives:  one per worker, one thread only.
// Source: docs/adr/0034-quota-calls-over-several-nodes.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <unordered_set>

#include "api/quota.hpp"
#include "base/time.hpp"
#include "server/node_task_pool.hpp"

namespace sluice::server {

class VisitedParts {
 public:
  static constexpr size_t cancelled_max = 65'536;

  VisitedParts(NodeTaskPool& pool, int64_t verdict_ms) noexcept
      : pool_(pool), verdict_ns_(verdict_ms * base::ns_per_ms) {}

  // False: no shard has a share.
  bool begin(QuotaTask& task);
  // What the home has cancelled is not held any more, nor charged. A cancel may overtake a verdict
  // from shard to shard: each worker that has decided the cancel refuses what comes behind it.
  void leave_out_cancelled(api::QuotaBatch& batch) const noexcept;
  // All shards have had their shares. False: the task is not needed any more.
  bool keep(QuotaTask& task, base::Now now);

  // The home has cancelled a reservation: parts of it that are still held here, or will be, are not
  // to be charged. For each worker of the node. A task that brings this to the shards; null: none
  // is held.
  QuotaTask* refuse(uint64_t reservation, base::Now now);
  // Of a batch whose time is over: the calls that no later round has here are left in its round.
  void leave_forgotten(api::QuotaBatch& batch) const noexcept;
  // A task whose time is over: it is to go to the shards. Null: none.
  QuotaTask* next_overdue(base::Now now);

  bool is_idle() const noexcept { return kept_.empty(); }
  // For which a home waits for an answer, and this node for a verdict.
  int64_t verdict_ns() const noexcept { return verdict_ns_; }

 private:
  using Kept = std::list<QuotaTask*>;

  bool find_awaiting_shard(api::QuotaBatch& batch);
  void replace_earlier(const QuotaTask& task);
  bool take_held(QuotaTask& task);
  QuotaTask& task_to_refuse(api::QuotaBatch& kept, size_t index);
  bool is_charged(const api::QuotaCall& call, const api::SpreadCall& part) const noexcept;
  void drop_done(Kept::iterator at);
  void note_cancelled(uint64_t reservation, base::Now now);
  bool is_cancelled(const api::SpreadCall& part) const noexcept {
    return cancelled_.contains(part.reservation);
  }

  struct Cancelled {
    uint64_t reservation;
    int64_t until_ns;
  };

  NodeTaskPool& pool_;
  const int64_t verdict_ns_;
  Kept kept_;
  std::deque<Cancelled> cancelled_since_;  // in their order
  std::unordered_set<uint64_t> cancelled_;
};

}  // namespace sluice::server
