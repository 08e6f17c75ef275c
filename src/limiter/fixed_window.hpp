// The counters of one key's current window, and the arithmetic on them.
// Flow:   roll(now) first, so that the counters are those of the window that runs now; then take,
//         deny or release.
// Shape:  anchored at the key's first request; the first call after a window's end moves on to the
//         window that runs then, in phase. No timer runs.
// Units:  milliseconds; `now_ms` is rounded down, so a window never ends early.
#pragma once

#include <cstdint>

#include "base/limits.hpp"
#include "base/time.hpp"
#include "limiter/window_algorithm.hpp"

namespace sluice::limiter {

struct FixedWindow {
  int64_t end_ms = 0;
  uint32_t approved = 0;  // permits; may exceed the limit after that was lowered
  uint32_t denied = 0;    // requests

  // Rounded up: the first window ends no earlier than `window_ms` after the first request.
  static constexpr FixedWindow starting_at(int64_t now_ns, int64_t window_ms) noexcept {
    return {.end_ms = base::ceil_ms(now_ns) + window_ms, .approved = 0, .denied = 0};
  }

  static constexpr FixedWindow unused_at(int64_t now_ms) noexcept { return {.end_ms = now_ms}; }

  static constexpr FixedWindow restored(int64_t end_ms, uint32_t approved,
                                        uint32_t denied) noexcept {
    return {.end_ms = end_ms, .approved = approved, .denied = denied};
  }

  constexpr bool over(int64_t now_ms) const noexcept { return now_ms >= end_ms; }

  constexpr int64_t begin_ms(int64_t window_ms) const noexcept { return end_ms - window_ms; }

  constexpr int64_t fresh_ms() const noexcept { return end_ms; }

  // The key was idle for limits::idle_windows whole windows by then.
  constexpr int64_t expiry_ms(int64_t window_ms) const noexcept {
    return end_ms + limits::idle_windows * window_ms;
  }
  constexpr bool expired(int64_t now_ms, int64_t window_ms) const noexcept {
    return now_ms >= expiry_ms(window_ms);
  }

  // Moves on to the window that runs at `now_ms`, keeping the phase.
  constexpr void roll(int64_t now_ms, int64_t window_ms) noexcept {
    if (!over(now_ms)) return;
    end_ms += window_ms;
    if (over(now_ms)) end_ms += ((now_ms - end_ms) / window_ms + 1) * window_ms;
    approved = 0;
    denied = 0;
  }

  // A window of another length begins, its counters go on.
  constexpr void restart(int64_t now_ns, int64_t window_ms) noexcept {
    end_ms = base::ceil_ms(now_ns) + window_ms;
  }
  constexpr void end_by(int64_t latest_ms) noexcept {
    if (latest_ms < end_ms) end_ms = latest_ms;
  }

  constexpr bool fits(uint32_t cost, uint32_t limit) const noexcept {
    return uint64_t{approved} + cost <= limit;
  }

  constexpr bool take(uint32_t cost, uint32_t limit) noexcept {
    if (!fits(cost, limit)) return false;
    approved += cost;
    return true;
  }

  constexpr void deny() noexcept {
    if (denied != UINT32_MAX) ++denied;
  }

  // The permit may be of an earlier window; the count stops at zero.
  constexpr void release(uint32_t cost) noexcept { approved -= approved < cost ? approved : cost; }

  constexpr uint32_t remaining(uint32_t limit) const noexcept {
    return approved < limit ? limit - approved : 0;
  }

  // The time left, rounded up. A first window lasts up to a millisecond longer than the policy
  // says; the result hides that.
  constexpr int64_t reset_ms(int64_t now_ms, int64_t window_ms) const noexcept {
    return end_ms - now_ms < window_ms ? end_ms - now_ms : window_ms;
  }

  bool operator==(const FixedWindow&) const = default;
};
static_assert(WindowAlgorithm<FixedWindow>);

}  // namespace sluice::limiter
