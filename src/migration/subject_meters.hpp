// The meters of one subject with words of their own, as a store has them in its memory.
// Flow:   a quota and LiveUsage -> charge() -> a subject's record; a subject's record -> copy ->
//         events_of(), day_of() -> ModelUsage.
// Shape:  a state file's time has the wall clock's place in its minute where a file was imported:
//         so sub-windows, of 4 s, begin where those of an earlier import began, and a round trip
//         keeps their sums.
// Lives:  values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "limiter/meter.hpp"
#include "limiter/meter_shape.hpp"
#include "migration/live_usage.hpp"

namespace sluice::migration {

// The same moment in the time of a state file and in wall time.
struct StateMoment {
  int64_t state_ns = 0;
  int64_t wall_ns = 0;

  int64_t state_at(int64_t wall) const noexcept { return state_ns - (wall_ns - wall); }
  int64_t wall_at(int64_t state) const noexcept { return wall_ns - (state_ns - state); }
};

// Of a new file: a day that has begun lies within its time.
StateMoment new_state_moment(int64_t wall_ns) noexcept;

// Of a file that new_state_moment() began: its clock and the wall's have been read one after the
// other, at each start, so that sub-windows no longer begin where an import would have them begin.
// Where they differ by less than a millisecond, the wall's time is corrected by that; otherwise
// each export and import would make all events 4 s later.
StateMoment corrected(const StateMoment& moment) noexcept;

class SubjectMeters {
 public:
  // Without usage.
  SubjectMeters(std::span<const limiter::MeterShape> shapes, const limiter::Moment& begin);
  // A copy of a subject's, as of now.
  SubjectMeters(std::span<const limiter::MeterShape> shapes, const limiter::Words& words,
                const limiter::Moment& now);

  std::span<const limiter::MeterShape> shapes() const noexcept { return shapes_; }
  limiter::Words words() const noexcept;
  limiter::Meter meter(size_t limit) const noexcept { return {shapes_[limit], words()}; }

  // Of an amount at its time. The calls for one limit go forward in time.
  void charge(size_t limit, uint64_t amount, int64_t state_ns) noexcept;

  // What a sliding limit counts, a charge for each sub-window, at its end, but not after now.
  struct Charge {
    int64_t state_ns = 0;
    uint64_t amount = 0;
    bool operator==(const Charge&) const = default;
  };
  std::vector<Charge> charges_of_ring(size_t limit, int64_t now_ns) const;

  // What an anchored day counts, and since when; none: it has not begun, or has no usage.
  std::optional<Charge> charge_of_day(size_t limit) const;

 private:
  explicit SubjectMeters(std::span<const limiter::MeterShape> shapes);

  std::vector<limiter::MeterShape> shapes_;
  mutable std::vector<uint64_t> heads_;  // a Meter is made over words, also to be read
  mutable std::vector<uint64_t> rings_;
};

// As of quota_of(): charges its three limits.
void charge(SubjectMeters& meters, const LiveUsage& usage, const StateMoment& now) noexcept;

}  // namespace sluice::migration
