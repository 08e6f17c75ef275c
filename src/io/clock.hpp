// The only place that reads a clock.
#pragma once

#include <time.h>

#include "base/time.hpp"

namespace sluice::io {

inline int64_t read_clock_ns(clockid_t clock) noexcept {
  timespec time{};
  ::clock_gettime(clock, &time);
  return time.tv_sec * base::ns_per_s + time.tv_nsec;
}

inline base::Now read_clock() noexcept {
  return {.monotonic_ns = read_clock_ns(CLOCK_MONOTONIC), .wall_ns = read_clock_ns(CLOCK_REALTIME)};
}

}  // namespace sluice::io
