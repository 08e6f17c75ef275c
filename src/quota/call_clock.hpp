// The time of the call that is being decided, in the forms that meters and timers need.
// Flow:   begin(now) once for a batch or a step -> next_call() before each call -> moment(), ms().
// Shape:  calls of one batch share their time, and have an order of their own: a window that a call
//         opens begins behind everything that earlier calls charged. Orders are never behind the
//         monotonic time, so that those of several shards can be compared, as nearly as their
//         clocks: a subject and a reservation of its may come from different ones, when a server
//         starts with another number of shards.
// Units:  as their names say; the monotonic time never goes back, nor does the wall's.
// Lives:  one thread only; each class that needs the time keeps a reference to its store's clock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.hpp"
#include "limiter/meter_shape.hpp"
#include "limiter/steady_wall.hpp"

namespace sluice::quota {

class CallClock {
 public:
  // Continues where the clock of an earlier start stood.
  void resume(const limiter::Moment& last) noexcept {
    moment_.ns = std::max(moment_.ns, last.ns);
    moment_.order = std::max(moment_.order, last.order);
    wall_.resume({.monotonic_ns = last.ns, .wall_ns = last.wall_ns});
  }

  void begin(base::Now now) noexcept {
    moment_.ns = std::max(moment_.ns, now.monotonic_ns);
    moment_.wall_ns = wall_.at(now);
    floor_ms_ = base::floor_ms(moment_.ns);
    ceil_ms_ = base::ceil_ms(moment_.ns);
    moment_.order = std::max(moment_.order + 1, static_cast<uint64_t>(moment_.ns));
  }
  void next_call() noexcept { ++moment_.order; }

  const limiter::Moment& moment() const noexcept { return moment_; }
  int64_t ns() const noexcept { return moment_.ns; }
  uint64_t order() const noexcept { return moment_.order; }
  // Rounded down: a timer for this millisecond is due.
  int64_t ms() const noexcept { return floor_ms_; }
  // A deadline so many milliseconds from now: rounded up, so that it never comes early.
  int64_t due_ms(uint32_t in_ms) const noexcept { return ceil_ms_ + in_ms; }

 private:
  limiter::Moment moment_;
  int64_t floor_ms_ = 0;
  int64_t ceil_ms_ = 0;
  limiter::SteadyWall wall_;
};

}  // namespace sluice::quota
