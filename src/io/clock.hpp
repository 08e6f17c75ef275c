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

// Pauses for some 100 ns, in which the processor saves power, or runs its other thread.
inline void pause_processor() noexcept {
  constexpr int instructions = 8;
  for (int count = 0; count < instructions; ++count) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");  // `yield` hardly takes any time
#endif
  }
}

}  // namespace sluice::io
