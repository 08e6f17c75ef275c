#include "base/timer_wheel.hpp"

#include <algorithm>
#include <bit>

namespace sluice::base {

void TimerWheel::schedule(Timer& timer, int64_t due_ms) noexcept {
  timer.unlink();
  timer.due_ms_ = due_ms;
  put(timer);
}

void TimerWheel::put(Timer& timer) noexcept {
  const int64_t distance = timer.due_ms_ - now_ms_;
  if (distance <= 0) {
    due_.push_back(timer);
    return;
  }
  // A timer beyond the last level's reach waits in its furthest slot and is scheduled again.
  constexpr int64_t reach_ms = (slots_count - 1) << (slot_bits * (levels_count - 1));
  const int64_t place = distance < reach_ms ? timer.due_ms_ : now_ms_ + reach_ms;
  // The level is that of the highest digit in which place and now differ, so a lower level's
  // timers are always due before a higher level's.
  const auto differ = static_cast<uint64_t>(place ^ now_ms_);
  const int level =
      std::min((static_cast<int>(std::bit_width(differ)) - 1) / slot_bits, levels_count - 1);
  const size_t slot = (static_cast<uint64_t>(place) >> (slot_bits * level)) % slots_count;
  Level& target = levels_[static_cast<size_t>(level)];
  target.slots[slot].push_back(timer);
  target.occupied[slot / 64] |= uint64_t{1} << (slot % 64);
  const int shift = slot_bits * level;
  next_slot_ms_ = std::min(next_slot_ms_, place >> shift << shift);
}

// Takes the timers of the slot that begins now; those of the lowest level are due.
void TimerWheel::take_slot(int level) noexcept {
  const auto slot = static_cast<size_t>((now_ms_ >> (slot_bits * level)) % slots_count);
  Level& source = levels_[static_cast<size_t>(level)];
  source.occupied[slot / 64] &= ~(uint64_t{1} << (slot % 64));
  Slot& target = level == 0 ? due_ : moving_;
  target.splice(target.end(), source.slots[slot]);
}

// Takes the slots that begin now, from the highest level down. False: they hold more timers than
// may be moved.
bool TimerWheel::cascade(int& moves_left) noexcept {
  for (;;) {
    for (; !moving_.empty(); --moves_left) {
      if (moves_left == 0) return false;
      Timer& timer = moving_.front();
      timer.unlink();
      put(timer);
    }
    if (cascade_level_ == 0) return true;
    --cascade_level_;
    if (now_ms_ % (int64_t{1} << (slot_bits * cascade_level_)) == 0) take_slot(cascade_level_);
  }
}

void TimerWheel::advance(int64_t now_ms) noexcept {
  int moves_left = moves_max_;
  if (!cascade(moves_left)) return;
  while (next_slot_ms_ <= now_ms) {
    now_ms_ = next_slot_ms_;
    cascade_level_ = levels_count;
    const bool is_done = cascade(moves_left);
    next_slot_ms_ = find_next_slot_ms();
    if (!is_done) return;
  }
  // No occupied slot begins in between, so the digits of the timers left still give their levels.
  if (now_ms > now_ms_) now_ms_ = now_ms;
}

Timer* TimerWheel::pop_due() noexcept {
  if (due_.empty()) return nullptr;
  Timer& timer = due_.front();
  timer.unlink();
  return &timer;
}

int64_t TimerWheel::next_due_ms() const noexcept {
  const bool is_stopped = cascade_level_ > 0 || !moving_.empty();
  return due_.empty() && !is_stopped ? next_slot_ms_ : now_ms_;
}

int64_t TimerWheel::find_next_slot_ms() const noexcept {
  for (int level = 0; level < levels_count; ++level) {
    const int shift = slot_bits * level;
    const int64_t digit = now_ms_ >> shift;
    const Level& source = levels_[static_cast<size_t>(level)];
    // Slots behind the current digit are empty, but in the last level, which wraps around.
    for (int64_t step = 1; step < slots_count;) {
      const auto slot = static_cast<size_t>((digit + step) % slots_count);
      const uint64_t ahead = source.occupied[slot / 64] >> (slot % 64);
      if (ahead != 0) {
        const int64_t found = step + std::countr_zero(ahead);
        if (found < slots_count) return (digit + found) << shift;
        break;
      }
      step += 64 - static_cast<int64_t>(slot % 64);
    }
  }
  return never_ms;
}

}  // namespace sluice::base
