// Wakes a worker that sleeps; to ring a worker that is awake costs no more than one load.
// Flow:   the sleeper: mark_asleep(), check every mailbox again, wait in the kernel, mark_awake();
//         the ringer: push into a mailbox, then ring() -> true: wake it.
// Shape:  one word. Every operation on it and on the rings' tails is sequentially consistent, so
//         either the sleeper sees what was pushed, or the ringer sees that it sleeps. No fences,
//         which ThreadSanitizer could not follow.
#pragma once

#include <atomic>

namespace sluice::route {

class Doorbell {
 public:
  void mark_asleep() noexcept { asleep_.store(true); }
  void mark_awake() noexcept { asleep_.store(false, std::memory_order_relaxed); }

  // True: the caller has to wake the sleeper. Only one ringer gets true.
  bool ring() noexcept { return asleep_.load() && asleep_.exchange(false); }

 private:
  alignas(64) std::atomic<bool> asleep_{false};
};

}  // namespace sluice::route
