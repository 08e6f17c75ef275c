// What of a model's usage still counts at a present time: by the library's own rules, as far as
// they say, in its words: an event counts for a minute, a day for 24 hours.
// Flow:   ModelUsage of a file -> live_usage() -> SubjectMeters.
// Units:  nanoseconds of wall time.
// Lives:  pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::migration {

inline constexpr int64_t event_lifetime_ns = 60 * base::ns_per_s;

struct DayUsage {
  int64_t start_wall_ns = 0;
  int64_t count = 0;
  bool operator==(const DayUsage&) const = default;
};

struct LiveUsage {
  std::vector<int64_t> requests_wall_ns;  // sorted, as the tokens are
  std::vector<transfer::TokenEvent> tokens;
  std::optional<DayUsage> day;  // none: it begins with the next request

  // What does not count as it is written in the file.
  uint64_t old_requests = 0;
  uint64_t old_tokens = 0;
  uint64_t future_requests = 0;  // count as of now
  uint64_t future_tokens = 0;
  int64_t old_day_count = 0;  // of a day that is over, or had never begun

  bool has_any() const noexcept {
    return !requests_wall_ns.empty() || !tokens.empty() || day.has_value();
  }
};

LiveUsage live_usage(const transfer::ModelUsage& usage, int64_t now_wall_ns);

}  // namespace sluice::migration
