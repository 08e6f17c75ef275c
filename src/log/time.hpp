// Time as the log tells it. Lines are built away from the loop turn's clock, which stands still.
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
