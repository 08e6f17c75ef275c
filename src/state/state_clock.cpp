#include "state/state_clock.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace sluice::state {
namespace {

constexpr std::string_view form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

// -1: it is not a hexadecimal digit.
int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<BootId> parse_boot_id(std::string_view text) noexcept {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (text.size() != form.size()) return std::nullopt;
  BootId id;
  for (size_t at = 0; at < form.size(); ++at) {
    if (form[at] == '-') {
      if (text[at] != '-') return std::nullopt;
      continue;
    }
    const int digit = digit_of(text[at]);
    if (digit < 0) return std::nullopt;
    id.high = id.high << 4 | id.low >> 60;
    id.low = id.low << 4 | static_cast<uint64_t>(digit);
  }
  return id;
}

StateStart start_state_clock(const std::optional<StoredTime>& stored, const MachineTime& present,
                             int64_t monotonic_ns) noexcept {
  if (!stored) return {.state_ns = monotonic_ns};
  ASSERT(stored->state_ns >= 0 && stored->state_ns <= state_ns_max);
  const MachineTime& last = stored->machine;
  const bool is_same_boot = present.boot.is_known() && present.boot == last.boot;
  const int64_t elapsed_ns =
      is_same_boot ? present.boot_ns - last.boot_ns : present.wall_ns - last.wall_ns;
  const int64_t downtime_ns = std::clamp<int64_t>(elapsed_ns, 0, downtime_ns_max);
  const int64_t state_ns = std::min(stored->state_ns + downtime_ns, state_ns_max);
  return {.state_ns = state_ns,
          .offset_ns = state_ns - monotonic_ns,
          .downtime_ns = downtime_ns,
          .behind_ns = std::max<int64_t>(-elapsed_ns, 0)};
}

std::string clock_warning(const StateStart& start) {
  if (start.behind_ns == 0) return {};
  const int64_t seconds = (start.behind_ns + base::ns_per_s - 1) / base::ns_per_s;
  return "the clock is " + std::to_string(seconds) +
         " s behind the time at which the state was stored: limits continue as if no time had "
         "passed since, so they may refuse for too long, and never allow too much; correct the "
         "machine's clock";
}

}  // namespace sluice::state
