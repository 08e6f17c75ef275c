// The hour, day, week or month of a time zone that contains a moment.
// Shape:  periods follow each other without gap or overlap. Weeks begin on Monday.
//         Days, weeks and months begin at the first instant at which clocks show their first
//         midnight or later: a midnight that is skipped begins with the first instant behind it,
//         one that comes twice at the first of them, and a date that is skipped has no period.
//         Hours are those of one offset: an hour that clocks show twice is two periods, one that
//         they skip is none, and a change in the middle of an hour begins a new one.
// Units:  nanoseconds since 1970, UTC, as base::Now::wall_ns; [begin, end).
// Lives:  pure; allocates nothing.
#pragma once

#include <cstdint>

#include "api/limit.hpp"
#include "limiter/zone.hpp"

namespace sluice::limiter {

struct Period {
  int64_t begin_ns = 0;  // a time beyond 64 bits becomes the least, or the greatest
  int64_t end_ns = 0;
  bool operator==(const Period&) const = default;
};

Period period_of(const Zone& zone, api::CalendarUnit unit, int64_t wall_ns) noexcept;

}  // namespace sluice::limiter
