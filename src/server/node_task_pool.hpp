// The tasks that other nodes ask for. They have no bound in common with those of clients: a frame
// that could free tasks must never wait behind one that waits for a task.
// Bounds: what the frames that nodes may have outstanding need; with limits::node_tasks_max tasks
//         under way no more is held for other nodes.
// Lives:  one per worker. Tasks keep their memory.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "base/limits.hpp"
#include "server/quota_task.hpp"

namespace sluice::server {

class NodeTaskPool {
 public:
  bool has_room() const noexcept { return used_count() < limits::node_tasks_max; }
  size_t used_count() const noexcept { return tasks_.size() - free_.size(); }

  QuotaTask& take() {
    if (free_.empty()) {
      free_.push_back(&tasks_.emplace_back());
      free_.back()->is_of_node = true;
    }
    QuotaTask& task = *free_.back();
    free_.pop_back();
    task.asker.reset();
    task.batch.clear();
    task.batch.spread.clear();
    return task;
  }
  void free(QuotaTask& task) {
    task.asker.reset();
    free_.push_back(&task);
  }

  bool awaits(const Asker& asker) const noexcept {
    return std::any_of(tasks_.begin(), tasks_.end(),
                       [&](const QuotaTask& task) { return task.asker == asker; });
  }

 private:
  std::deque<QuotaTask> tasks_;
  std::vector<QuotaTask*> free_;
};

}  // namespace sluice::server
