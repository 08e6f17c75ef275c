// The tasks of one shard that wait for answers of other shards: queries, and batches of quota
// calls.
// Flow:   take() when a session asks -> lent from shard to shard -> free() when it is answered.
// Shape:  both kinds share one bound, so that a session needs to check one number only.
//         A task that only waits for the disk is parked: another one has its place meanwhile.
// Errors: has_room() is false: the session waits until a task is free.
// Lives:  one per kind and worker. Tasks keep their memory: it is allocated when it is first needed
//         (ADR 0004).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/assert.hpp"
#include "io/io.hpp"

namespace sluice::server {

class TaskSlots {
 public:
  explicit TaskSlots(uint32_t count) noexcept : count_(count) {}

  bool has_room() const noexcept { return used_ < count_; }
  void take() noexcept {
    ASSERT(has_room());
    ++used_;
  }
  void free() noexcept {
    ASSERT(used_ > 0);
    --used_;
  }
  uint32_t count() const noexcept { return count_; }
  uint32_t used_count() const noexcept { return used_; }

 private:
  const uint32_t count_;
  uint32_t used_ = 0;
};

// The connection that asked, and the id under which it waits for the answer.
struct Asker {
  io::SocketId socket;
  uint64_t id = 0;
  bool operator==(const Asker&) const = default;
};

// `Task` has a member `std::optional<Asker> asker`; empty: the worker's own task.
template <typename Task>
class TaskPool {
 public:
  explicit TaskPool(TaskSlots& slots, uint32_t parked_max = 0)
      : slots_(slots), tasks_(slots.count() + parked_max), parked_max_(parked_max) {
    free_.reserve(tasks_.size());
    for (Task& task : tasks_) free_.push_back(&task);
  }

  bool has_room() const noexcept { return slots_.has_room(); }

  // Returns a free task with stale contents; the caller fills it.
  Task& take(const std::optional<Asker>& asker) noexcept {
    slots_.take();
    Task& task = *free_.back();
    free_.pop_back();
    task.asker = asker;
    return task;
  }
  void free(Task& task) noexcept {
    task.asker.reset();
    free_.push_back(&task);
    slots_.free();
  }

  bool may_park() const noexcept { return parked_count_ < parked_max_; }
  uint32_t parked_count() const noexcept { return parked_count_; }
  void park(Task& /*task*/) noexcept {
    ASSERT(may_park());
    ++parked_count_;
    slots_.free();
  }
  // Keeps no memory where many were parked.
  void free_parked(Task& task) noexcept {
    ASSERT(parked_count_ > 0);
    if (--parked_count_ >= slots_.count()) task = {};
    task.asker.reset();
    free_.push_back(&task);
  }

  bool awaits(const Asker& asker) const noexcept {
    return std::any_of(tasks_.begin(), tasks_.end(),
                       [&](const Task& task) { return task.asker == asker; });
  }

 private:
  TaskSlots& slots_;
  std::vector<Task> tasks_;
  std::vector<Task*> free_;
  const uint32_t parked_max_;
  uint32_t parked_count_ = 0;
};

}  // namespace sluice::server
