// Wall time for calendars: it never goes back, so that a period that has closed stays closed.
// Shape:  follows the wall clock forwards at once. While the wall clock is behind, time runs on at
//         half speed until the clock has caught up: no period opens again, and time never stands
//         still.
// Lives:  one thread; `now` of every turn.
#pragma once

#include <algorithm>

#include "base/time.hpp"

namespace sluice::limiter {

class SteadyWall {
 public:
  // Continues as if at() had returned this wall time at that monotonic time.
  void resume(base::Now last) noexcept {
    monotonic_ns_ = last.monotonic_ns;
    wall_ns_ = last.wall_ns;
    began_ = true;
  }

  int64_t at(base::Now now) noexcept {
    const int64_t elapsed = std::max<int64_t>(now.monotonic_ns - monotonic_ns_, 0);
    monotonic_ns_ = std::max(monotonic_ns_, now.monotonic_ns);
    wall_ns_ = began_ ? std::max(now.wall_ns, wall_ns_ + elapsed / 2) : now.wall_ns;
    began_ = true;
    return wall_ns_;
  }

 private:
  int64_t monotonic_ns_ = 0;
  int64_t wall_ns_ = 0;
  bool began_ = false;
};

}  // namespace sluice::limiter
