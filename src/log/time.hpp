// The time of log lines. The log reads the clock itself, because a turn's clock stands still.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.hpp"
#include "io/clock.hpp"

namespace sluice::log {

inline base::Now now() noexcept {
  return io::read_clock();
}

// "2026-01-31T12:00:00.000000001Z", as Go writes it.
std::string utc_time(int64_t wall_ns);

}  // namespace sluice::log
