// Lets one of all workers log a line, and then nobody for a while.
// Threads: any; one for each line of the process.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.hpp"

namespace sluice::server {

class LogPause {
 public:
  explicit LogPause(int64_t pause_ns) noexcept : pause_ns_(pause_ns) {}

  // Whether the caller logs the line; then the pause begins.
  bool may_log(base::Now now) noexcept {
    int64_t until_ns = until_ns_.load(std::memory_order_relaxed);
    if (now.monotonic_ns < until_ns) return false;
    return until_ns_.compare_exchange_strong(until_ns, now.monotonic_ns + pause_ns_,
                                             std::memory_order_relaxed);
  }

 private:
  const int64_t pause_ns_;
  std::atomic<int64_t> until_ns_{0};
};

}  // namespace sluice::server
