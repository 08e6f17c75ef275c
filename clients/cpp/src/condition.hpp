// A condition variable whose waits are the platform's. Part of Client.
// Shape:  a count of notifications; a thread sleeps while the count is the one it has seen.
// Threads: the predicate may change only under the lock with which threads wait for it;
//         notify_all() needs no lock.
#pragma once

#include <atomic>
#include <mutex>

#include "platform.hpp"

namespace sluicegate {

class Condition {
 public:
  using Lock = std::unique_lock<std::mutex>;

  explicit Condition(Platform& platform) : platform_{platform} {}

  // A thread that found the predicate false before it changed has been counted as sleeping by then.
  void notify_all() noexcept {
    if (sleeping_.load() == 0) return;
    ++notifications_;
    platform_.wake(&notifications_);
  }

  template <typename Predicate>
  void wait(Lock& lock, Predicate is_true) {
    wait_until(lock, std::nullopt, is_true);
  }
  // Returns the predicate: false at the deadline.
  template <typename Predicate>
  bool wait_until(Lock& lock, Platform::Deadline deadline, Predicate is_true) {
    bool in_time = true;
    while (!is_true()) {
      if (!in_time) return false;
      ++sleeping_;
      const uint32_t seen = notifications_.load();
      lock.unlock();
      in_time = platform_.sleep(notifications_, seen, deadline);
      lock.lock();
      --sleeping_;
    }
    return true;
  }

 private:
  Platform& platform_;
  Platform::Gate notifications_{0};
  std::atomic<uint32_t> sleeping_{0};
};

}  // namespace sluicegate
