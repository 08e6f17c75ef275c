// Finished tasks whose changes of quotas are not durable yet: their answers wait for the disk.
// Flow:   QuotaTasks: add() instead of an answer -> answer_due(), once a turn.
// Shape:  a task that waits gives its place to another one, as long as there are not too many.
// Errors: answers that wait for limits::durable_wait_ms_max, or for a file that is not written any
//         more, become memory_only.
// Bounds: StateOptions::parked_tasks_max; and as many as tasks, those that were asked for before
//         these were reached.
// Lives:  one per worker, one thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "api/quota.hpp"
#include "base/time.hpp"
#include "server/quota_task.hpp"
#include "server/session_table.hpp"
#include "server/state_keeper.hpp"
#include "server/task_pool.hpp"

namespace sluice::server {

class UndurableTasks {
 public:
  UndurableTasks(StateKeeper& keeper, SessionTable& sessions, TaskPool<QuotaTask>& pool,
                 uint32_t tasks_max);

  // Whether the task waits from now on; else it can be answered.
  bool add(QuotaTask& task, base::Now now) noexcept;
  bool has_any() const noexcept { return !tasks_.empty(); }
  // When the first of them has waited for too long.
  int64_t due_ns() const noexcept;

  // Passes on what is durable now, or waits no longer: `answer(task)`, in the order in which they
  // came, and then to `free(task)` those that are not parked. How many those were.
  template <typename Answer, typename Free>
  size_t answer_due(base::Now now, Answer answer, Free free) noexcept;

 private:
  bool waits(const QuotaTask& task, base::Now now) const noexcept;
  void take_due(base::Now now) noexcept;
  static void note_memory_only(api::QuotaBatch& batch) noexcept;

  StateKeeper& keeper_;
  SessionTable& sessions_;
  TaskPool<QuotaTask>& pool_;
  std::vector<QuotaTask*> tasks_;  // in the order in which they came
  std::vector<QuotaTask*> due_;    // likewise: those that answer_due() passes on
};

template <typename Answer, typename Free>
size_t UndurableTasks::answer_due(base::Now now, Answer answer, Free free) noexcept {
  take_due(now);
  for (QuotaTask* const task : due_) {  // a session that has its answer may ask anew
    if (!keeper_.is_durable(task->epoch)) note_memory_only(task->batch);
    answer(*task);
    task->is_parked ? pool_.free_parked(*task) : free(*task);
  }
  return due_.size();
}

}  // namespace sluice::server
