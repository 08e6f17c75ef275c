// Deadlines of one worker, in milliseconds: constant work to add, move and cancel.
// Flow:   schedule() -> advance(now) collects what is due -> pop_due() one by one, so that the
//         caller can stop after a slice of work and go on later.
// Shape:  4 levels of 256 slots; level k's slot spans 256^k ms. A timer beyond 2^32 ms waits in the
//         last level and is scheduled again. Slots are intrusive lists; nothing is allocated.
// Lives:  a Timer belongs to its owner, which cancels it before it ends; one thread only.
// Source: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", 1987.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "base/time.hpp"

namespace sluice::base {

class Timer : public boost::intrusive::list_base_hook<
                  boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  explicit Timer(uint64_t of = 0) noexcept : owner(of) {}

  uint64_t owner;  // a number that identifies the timer to its user
  bool scheduled() const noexcept { return is_linked(); }
  int64_t due_ms() const noexcept { return due_ms_; }

 private:
  friend class TimerWheel;
  int64_t due_ms_ = 0;
};

class TimerWheel {
 public:
  // `moves_max`: timers that one advance() schedules again.
  explicit TimerWheel(int64_t now_ms, int moves_max = 4'096) noexcept
      : now_ms_(now_ms), moves_max_(moves_max) {}

  // Due at `due_ms` (at once if that has passed). Moves a timer that is scheduled already.
  void schedule(Timer& timer, int64_t due_ms) noexcept;
  static void cancel(Timer& timer) noexcept { timer.unlink(); }

  // Everything due at `now_ms` becomes available to pop_due(), unless more than `moves_max` timers
  // had to be scheduled again: then the wheel stops early, next_due_ms() has passed, and the next
  // call continues.
  void advance(int64_t now_ms) noexcept;

  // A due timer, taken off; null when there is none.
  Timer* pop_due() noexcept;

  // A time before which nothing becomes due: exact within 256 ms, a slot's start beyond (and a
  // cancelled timer's time, once). never_ms when nothing is scheduled.
  int64_t next_due_ms() const noexcept;

 private:
  using Slot = boost::intrusive::list<Timer, boost::intrusive::constant_time_size<false>>;
  static constexpr int levels_count = 4;
  static constexpr int slot_bits = 8;
  static constexpr int64_t slots_count = 1 << slot_bits;

  struct Level {
    std::array<Slot, slots_count> slots;
    std::array<uint64_t, slots_count / 64>
        occupied{};  // a bit per slot; may be set for an empty one
  };

  void put(Timer& timer) noexcept;
  bool cascade(int& moves_left) noexcept;
  void take_slot(int level) noexcept;
  int64_t find_next_slot_ms() const noexcept;

  int64_t now_ms_;  // every slot that begins up to and including this millisecond was collected
  int64_t next_slot_ms_ = never_ms;  // the first occupied one begins
  std::array<Level, levels_count> levels_;
  Slot due_;
  const int moves_max_;
  int cascade_level_ = 0;  // levels below it are not yet collected for now_ms_ ...
  Slot moving_;            // ... nor these timers scheduled again
};

}  // namespace sluice::base
