// Time as an argument: the "now" of one loop turn.
// Flow:  io::Io::poll() reads both clocks once a turn; everything above receives the pair.
// Units: integer nanoseconds, and milliseconds where a name ends in _ms.
#pragma once

#include <cstdint>

namespace sluice::base {

inline constexpr int64_t ns_per_us = 1'000;
inline constexpr int64_t ns_per_ms = 1'000'000;
inline constexpr int64_t ns_per_s = 1'000'000'000;
inline constexpr int64_t s_per_hour = 3'600;
inline constexpr int64_t s_per_day = 24 * s_per_hour;
inline constexpr int64_t ns_per_day = s_per_day * ns_per_s;

// "Never", and "no limit", for a point in monotonic time.
inline constexpr int64_t never_ns = INT64_MAX;
inline constexpr int64_t never_ms = INT64_MAX;

struct Now {
  int64_t monotonic_ns = 0;  // windows and deadlines
  int64_t wall_ns = 0;       // calendars, logs, what is stored on disk
};

// A deadline in milliseconds, or never_ms, in nanoseconds.
constexpr int64_t due_ns(int64_t due_ms) noexcept {
  return due_ms == never_ms ? never_ns : due_ms * ns_per_ms;
}

// Rounded down: a deadline has passed when floor_ms(now) >= deadline_ms.
constexpr int64_t floor_ms(int64_t ns) noexcept {
  return ns / ns_per_ms;
}

// Rounded up: a time that is promised to a client is never too early.
constexpr int64_t ceil_ms(int64_t ns) noexcept {
  return (ns + ns_per_ms - 1) / ns_per_ms;
}

// Whole seconds, rounded up, as HTTP headers have them; 0 for a time that has passed.
constexpr int64_t ceil_seconds(int64_t ms) noexcept {
  return ms <= 0 ? 0 : ms / 1'000 + (ms % 1'000 == 0 ? 0 : 1);
}

}  // namespace sluice::base
