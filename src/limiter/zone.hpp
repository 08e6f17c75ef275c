// A time zone: its offsets from UTC, with every change of them within 64 bits of nanoseconds (1677
// to 2262).
// Flow:   a file or a request names a zone -> find_zone() -> limiter/calendar.hpp uses it.
// Shape:  stretches of time with one offset, in order. They come from the system's time zone files:
//         their table of changes, and behind its end their rule for the years to come.
// Units:  seconds; UTC since 1970, or "local": the time on the zone's clocks, likewise.
// Errors: find_zone() gives null for a name that the system does not have.
// Lives:  zones that were found live as long as the process and never change: any thread may use
//         them. find_zone() itself reads a file and allocates when a name is new.
// Source: RFC 9636 (TZif, its footer); POSIX, TZ.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::limiter {

// From `begin_s` on, until the next change, clocks show UTC plus the offset.
struct OffsetChange {
  int64_t begin_s = 0;
  int64_t offset_s = 0;
  bool operator==(const OffsetChange&) const = default;
};

class Zone {
 public:
  // In order, at least one; the first one's offset holds before it, too.
  Zone(std::string name, const std::vector<OffsetChange>& changes);

  struct Stretch {
    int64_t begin_s = 0;
    int64_t offset_s = 0;
    int64_t local_end_s = 0;  // the latest local time of this and all earlier stretches
  };

  const std::string& name() const noexcept { return name_; }
  const std::vector<Stretch>& stretches() const noexcept { return stretches_; }
  size_t stretch_at(int64_t s) const noexcept;  // its index
  int64_t begin_s(size_t stretch) const noexcept { return stretches_[stretch].begin_s; }
  int64_t end_s(size_t stretch) const noexcept;

  // The first instant at which clocks show `local_s` or later.
  int64_t first_at(int64_t local_s) const noexcept;
  // The latest local time that clocks have shown by then: they may have been put back.
  int64_t latest_local(int64_t s) const noexcept;

 private:
  std::string name_;
  std::vector<Stretch> stretches_;
};

// "Europe/Berlin"; "UTC" is always there, all others are the system's (Debian's tzdata).
const Zone* find_zone(std::string_view name);

// Lists the system's zones, so that find_zone() has only one file to read when a request names one.
void prepare_zones();

// The changes that a rule such as "CET-1CEST,M3.5.0,M10.5.0/3" makes in these years, in order.
// Empty: it makes none, or is no such rule.
std::vector<OffsetChange> changes_of_rule(std::string_view rule, int first_year, int last_year);

}  // namespace sluice::limiter
