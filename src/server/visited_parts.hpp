// The parts that this node has of calls whose home is another one.
// Flow:   QuotaTasks: a share that another node asks for -> begin() -> the shards that it concerns
//         -> the answer -> keep(), after an `ask`: shards hold what fits, and remember who waits.
//         The verdict, `apply`, finds it: begin() -> the shards once more.
// Shape:  kept tasks, in the order in which their time is over.
// Errors: without a verdict in time (--peer-timeout-millis) what is held counts as charged: the
//         home may have admitted the call, and its caller may know. A cancel by the home still
//         refunds it.
// Bounds: those of the pool.
// Lives:  one per worker, one thread only.
// Source: docs/adr/0034-quota-calls-over-several-nodes.md.
#pragma once

#include <cstdint>
#include <list>

#include "api/quota.hpp"
#include "base/time.hpp"
#include "server/node_task_pool.hpp"

namespace sluice::server {

class VisitedParts {
 public:
  VisitedParts(NodeTaskPool& pool, int64_t verdict_ms) noexcept
      : pool_(pool), verdict_ms_(verdict_ms) {}

  // False: no shard has a share.
  bool begin(QuotaTask& task);
  // All shards have had their shares. False: the task is not needed any more.
  bool keep(QuotaTask& task, base::Now now);

  // The home has ended a reservation. If parts of it are still held here, they are not to be
  // charged: a task that brings this to the shards. Null: none is held.
  QuotaTask* refuse(uint64_t reservation);
  // A task whose time is over: it is to go to the shards. Null: none.
  QuotaTask* next_overdue(base::Now now);

  bool is_idle() const noexcept { return kept_.empty(); }

 private:
  void find_awaiting_shard(api::QuotaBatch& batch);
  void replace_earlier(const QuotaTask& task);
  bool take_held(QuotaTask& task);
  void drop_done(std::list<QuotaTask*>::iterator at);

  NodeTaskPool& pool_;
  const int64_t verdict_ms_;
  std::list<QuotaTask*> kept_;
};

}  // namespace sluice::server
