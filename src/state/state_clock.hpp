// State time: a clock that goes on over restarts, so that stored times mean the same at the next
// start.
// Flow:   the last part that was stored, and the clocks at start -> start_state_clock() -> what
//         every worker adds to its monotonic time; clock_warning() for the log.
// Shape:  state time at start is the last one that was stored and the downtime since. That is the
//         difference of the clock since boot if the machine has not booted since, whatever the wall
//         clock did, else that of the wall clock.
// Units:  nanoseconds.
// Errors: the downtime is never negative: with a clock that went back, no time has passed, so that
//         nothing opens early.
// Lives:  pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.hpp"

namespace sluice::state {

// Names a boot of the machine: /proc/sys/kernel/random/boot_id. Zero: it is unknown.
struct BootId {
  uint64_t high = 0;
  uint64_t low = 0;
  bool is_known() const noexcept { return high != 0 || low != 0; }
  bool operator==(const BootId&) const = default;
};

// "f4d1ff0a-6f7d-4f0c-8f83-33b3c3bbd8a2", with or without a line's end. None: it is not one.
std::optional<BootId> parse_boot_id(std::string_view text) noexcept;

// Of the machine, at one moment.
struct MachineTime {
  BootId boot;
  int64_t boot_ns = 0;  // CLOCK_BOOTTIME: since boot, also while the machine sleeps
  int64_t wall_ns = 0;
  bool operator==(const MachineTime&) const = default;
};

struct StoredTime {
  int64_t state_ns = 0;
  MachineTime machine;  // at the same moment
  bool operator==(const StoredTime&) const = default;
};

struct StateStart {
  int64_t state_ns = 0;
  int64_t offset_ns = 0;  // state time is monotonic time and this
  int64_t downtime_ns = 0;
  int64_t behind_ns = 0;  // how far a clock went back; 0: none did
};

// Longer downtimes count as this one: every window and every lifetime is shorter. So a clock that
// was once far ahead costs state time a year only.
inline constexpr int64_t downtime_ns_max = 400 * base::ns_per_day;

// Stored times are not later: 73 years of state time, and the year 2116. Meters add up to half of
// base::never_ns.
inline constexpr int64_t state_ns_max = INT64_MAX / 4;
inline constexpr int64_t wall_ns_max = INT64_MAX / 2;

// `stored` has passed the checks of a part. None: there is no state yet, and state time is
// monotonic time.
StateStart start_state_clock(const std::optional<StoredTime>& stored, const MachineTime& present,
                             int64_t monotonic_ns) noexcept;

// For the log; empty: no clock went back.
std::string clock_warning(const StateStart& start);

}  // namespace sluice::state
