// What is allowed for a key: so many permits per window, so many waiters in line.
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
