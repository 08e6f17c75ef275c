// The policy of a key: permits per window, and waiters in its queue.
// Source: gocc (global values, file entries, per-request overrides).
#pragma once

#include <cstdint>

namespace sluice::limiter {

struct Policy {
  int64_t window_ms = 1000;
  uint32_t max_requests = 100;
  uint32_t max_requests_in_queue = 400;
  bool operator==(const Policy&) const = default;
};

}  // namespace sluice::limiter
