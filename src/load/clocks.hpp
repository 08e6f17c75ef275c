// Wall clock and CPU time of this process and of another one.
// Units:  nanoseconds and seconds.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <optional>

namespace sluice::load {

inline uint64_t read_ns(clockid_t clock) noexcept {
  timespec at{};
  clock_gettime(clock, &at);
  return static_cast<uint64_t>(at.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(at.tv_nsec);
}

inline uint64_t now_ns() noexcept {
  return read_ns(CLOCK_MONOTONIC);
}

inline double own_cpu_s() noexcept {
  return static_cast<double>(read_ns(CLOCK_PROCESS_CPUTIME_ID)) * 1e-9;
}

// User and system time of all threads of a process; nullopt when the process does not exist.
inline std::optional<double> cpu_s_of(pid_t pid) noexcept {
  clockid_t clock{};
  timespec at{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &at) != 0) return std::nullopt;
  return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
}

}  // namespace sluice::load
