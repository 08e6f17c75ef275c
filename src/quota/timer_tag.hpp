// The owner words of a store's timers: all of them share one wheel.
// Shape:  the kind in the upper 4 bits of a timer's owner, an index in the lower 32.
#pragma once

#include <cstdint>

#include "base/timer_wheel.hpp"

namespace sluice::quota {

struct TimerTag {
  enum Kind : uint8_t {
    lifetime,    // of a reservation: it expires, or is forgotten
    wait_limit,  // of a waiter
    wake         // of a waiter: when it may fit
  };
  static constexpr int kind_shift = 60;

  Kind kind;
  uint32_t index;  // of the reservation, or the waiter

  constexpr uint64_t bits() const noexcept { return (uint64_t{kind} << kind_shift) | index; }
  static TimerTag of(const base::Timer& timer) noexcept {
    return {.kind = static_cast<Kind>(timer.owner >> kind_shift),
            .index = static_cast<uint32_t>(timer.owner)};
  }
};

}  // namespace sluice::quota
