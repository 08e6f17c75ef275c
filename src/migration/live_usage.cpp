#include "migration/live_usage.hpp"

#include <algorithm>

namespace sluice::migration {
namespace {

// The library drops an event that is exactly a minute old.
bool is_old(int64_t wall_ns, int64_t now_wall_ns) noexcept {
  return wall_ns <= now_wall_ns - event_lifetime_ns;
}

void take_requests(const transfer::ModelUsage& usage, int64_t now_wall_ns, LiveUsage& live) {
  for (const int64_t wall_ns : usage.requests_wall_ns) {
    if (is_old(wall_ns, now_wall_ns)) {
      ++live.old_requests;
      continue;
    }
    live.requests_wall_ns.push_back(std::min(wall_ns, now_wall_ns));
    if (wall_ns > now_wall_ns) ++live.future_requests;
  }
}

void take_tokens(const transfer::ModelUsage& usage, int64_t now_wall_ns, LiveUsage& live) {
  for (const transfer::TokenEvent& event : usage.tokens) {
    if (is_old(event.wall_ns, now_wall_ns)) {
      ++live.old_tokens;
      continue;
    }
    live.tokens.push_back({.wall_ns = std::min(event.wall_ns, now_wall_ns), .count = event.count});
    if (event.wall_ns > now_wall_ns) ++live.future_tokens;
  }
}

// A day without a start is over for the library, whatever it has counted.
void take_day(const transfer::ModelUsage& usage, int64_t now_wall_ns, LiveUsage& live) {
  if (usage.day_count == 0) return;
  const auto start = usage.day_start_wall_ns;
  if (!start || now_wall_ns - *start >= base::ns_per_day) {
    live.old_day_count = usage.day_count;
    return;
  }
  live.day = {.start_wall_ns = std::min(*start, now_wall_ns), .count = usage.day_count};
}

}  // namespace

LiveUsage live_usage(const transfer::ModelUsage& usage, int64_t now_wall_ns) {
  LiveUsage live;
  take_requests(usage, now_wall_ns, live);
  take_tokens(usage, now_wall_ns, live);
  take_day(usage, now_wall_ns, live);
  return live;
}

}  // namespace sluice::migration
