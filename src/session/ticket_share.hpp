// One connection's share of the places for waiters: how many tickets it holds, and whether it may
// take another one.
// Flow:   may_take() -> taken() -> joined(), once its session knows that it waits -> dropped().
// Shape:  places for waiters of keys and of quotas are counted apart, as the server has them.
// Bounds: a connection holds at most as many places as it leaves free, so that none has them all;
//         and at least one.
#pragma once

#include <array>
#include <cstdint>

#include "base/assert.hpp"
#include "base/limits.hpp"

namespace sluice::session {

// What a ticket's entry waits for.
enum class WaitsFor : uint8_t { permits, quota };
inline constexpr size_t waits_for_count = 2;

class TicketShare {
 public:
  // `waiting`: how many of all connections wait for that; `places`: how many may. `most`: this
  // connection.
  bool may_take(WaitsFor what, uint64_t waiting, uint32_t places,
                uint32_t most = limits::connection_waiters_max) const noexcept {
    if (undecided_count() + waiting_count() >= most) return false;
    const uint32_t own = waiting_[index(what)];
    const uint64_t held = uint64_t{own} + undecided_[index(what)];
    // Those of others; another shard's count may be a turn old.
    const uint64_t others = waiting > own ? waiting - own : 0;
    return held == 0 || 2 * held + others < places;
  }

  void taken(WaitsFor what) noexcept { ++undecided_[index(what)]; }
  void joined(WaitsFor what) noexcept {
    drop(undecided_[index(what)]);
    ++waiting_[index(what)];
  }
  void dropped_undecided(WaitsFor what) noexcept { drop(undecided_[index(what)]); }
  void dropped(WaitsFor what) noexcept { drop(waiting_[index(what)]); }

 private:
  static constexpr size_t index(WaitsFor what) noexcept { return static_cast<size_t>(what); }
  static void drop(uint32_t& count) noexcept {
    ASSERT(count > 0);
    --count;
  }
  uint32_t undecided_count() const noexcept { return undecided_[0] + undecided_[1]; }
  uint32_t waiting_count() const noexcept { return waiting_[0] + waiting_[1]; }

  std::array<uint32_t, waits_for_count> undecided_{};  // of entries that may wait
  std::array<uint32_t, waits_for_count> waiting_{};    // or have an outcome that is not written
};

}  // namespace sluice::session
