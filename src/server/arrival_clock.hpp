// The clock by which calls of all nodes are ordered: that of this machine, so far ahead as the
// latest time that another node has shown. So two nodes order calls differently only within the way
// of a message between them.
// Flow:   a call that comes in -> ns(); a time of another node, with its call or with its answer ->
//         follow().
// Bounds: no clock shows a time so far ahead as ahead_ns_max: a node that says so is not followed
//         there.
// Lives:  one of all workers, so that they agree; any thread.
// Source: Lamport, Time, Clocks, and the Ordering of Events in a Distributed System, 1978.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/time.hpp"

namespace sluice::server {

class ArrivalClock {
 public:
  static constexpr int64_t ahead_ns_max = 200LL * 365 * 24 * base::s_per_hour * base::ns_per_s;

  int64_t ns(base::Now now) const noexcept {
    return now.monotonic_ns + ahead_ns_.load(std::memory_order_relaxed);
  }
  // A call or an answer has come that another node has given this time.
  void follow(int64_t time_ns, base::Now now) noexcept {
    const int64_t ahead_ns = std::min(time_ns - now.monotonic_ns, ahead_ns_max);
    int64_t known_ns = ahead_ns_.load(std::memory_order_relaxed);
    while (known_ns < ahead_ns &&
           !ahead_ns_.compare_exchange_weak(known_ns, ahead_ns, std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<int64_t> ahead_ns_{0};
};

}  // namespace sluice::server
