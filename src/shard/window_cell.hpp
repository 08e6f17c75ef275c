// A key's window packed into twelve bytes, wherever they lie: in its bucket, or in its seat.
// Shape:  word   63..31 end_ms, low 33 bits | 30 is away | 29..0 approved permits
//         tail   31..24 end_ms, high 8 bits | 23..18 policy (policy_classes.hpp) | 17..0 denied
//         A window that is away lies elsewhere and the tail is an index: of a seat where the word's
//         lowest bit is set (handle_book.hpp), else of an extra (key_extra.hpp). A seat that holds
//         no window is away too, so that one test finds all that is not plain.
// Units:  milliseconds of the monotonic clock: 41 bits are 69 years.
// Lives:  a view, until the key moves.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "limiter/fixed_window.hpp"

namespace sluice::shard {

class WindowCell {
 public:
  static constexpr uint32_t policies_count = 64;
  static constexpr uint32_t denied_max = (1U << 18) - 1;  // beyond it the key gets an extra

  WindowCell(uint64_t& word, uint32_t& tail) noexcept : word_(&word), tail_(&tail) {}

  bool is_away() const noexcept { return (*word_ & away_bit) != 0; }
  bool has_extra() const noexcept { return (*word_ & (away_bit | handle_slot_bit)) == away_bit; }
  bool has_handle_slot() const noexcept {
    return (*word_ & (away_bit | handle_slot_bit)) == (away_bit | handle_slot_bit);
  }
  // Of a seat: nobody's window lies here.
  bool is_vacant() const noexcept { return has_handle_slot() && *tail_ == nowhere; }

  uint32_t extra() const noexcept {
    DEBUG_ASSERT(has_extra());
    return *tail_;
  }
  uint32_t handle_slot() const noexcept {
    DEBUG_ASSERT(has_handle_slot());
    return *tail_;
  }
  void set_extra(uint32_t index) noexcept { set(away_bit, index); }
  void set_handle_slot(uint32_t index) noexcept { set(away_bit | handle_slot_bit, index); }
  void set_vacant() noexcept { set(away_bit | handle_slot_bit, nowhere); }
  void copy(WindowCell from) noexcept { set(*from.word_, *from.tail_); }

  limiter::FixedWindow window() const noexcept {
    DEBUG_ASSERT(!is_away());
    return {.end_ms = end_ms(),
            .approved = static_cast<uint32_t>(*word_) & approved_mask,
            .denied = *tail_ & denied_max};
  }

  uint32_t policy() const noexcept {
    DEBUG_ASSERT(!is_away());
    return *tail_ >> policy_shift & (policies_count - 1);
  }

  void set_window(const limiter::FixedWindow& window, uint32_t policy) noexcept {
    DEBUG_ASSERT(window.denied <= denied_max && policy < policies_count);
    const auto end_ms = static_cast<uint64_t>(window.end_ms);
    set(end_ms << 31 | window.approved,
        static_cast<uint32_t>(end_ms >> 33) << 24 | policy << policy_shift | window.denied);
  }
  // Of the same policy.
  void set_window(const limiter::FixedWindow& window) noexcept { set_window(window, policy()); }

  // As FixedWindow has them, in place: unpacking a window and packing it again costs more than
  // all the rest of a decision.
  int64_t end_ms() const noexcept {
    DEBUG_ASSERT(!is_away());
    return static_cast<int64_t>(*word_ >> 31 | uint64_t{*tail_ >> 24} << 33);
  }
  bool take(uint32_t cost, uint32_t limit) noexcept {
    DEBUG_ASSERT(!is_away() && limit <= limits::permits_max);
    if ((*word_ & approved_mask) + cost > limit) return false;
    *word_ += cost;
    return true;
  }
  // False when only an extra can count one more.
  bool deny() noexcept {
    DEBUG_ASSERT(!is_away());
    if ((*tail_ & denied_max) == denied_max) return false;
    ++*tail_;
    return true;
  }

 private:
  static constexpr uint32_t policy_shift = 18;
  static constexpr uint32_t approved_mask = (1U << 30) - 1;
  static constexpr uint64_t away_bit = 1U << 30;
  static constexpr uint64_t handle_slot_bit = 1;
  static constexpr uint32_t nowhere = 0xFFFF'FFFF;
  static_assert(limits::permits_max <= approved_mask);

  void set(uint64_t word, uint32_t tail) noexcept {
    *word_ = word;
    *tail_ = tail;
  }

  uint64_t* word_;
  uint32_t* tail_;
};

}  // namespace sluice::shard
