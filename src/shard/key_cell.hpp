// The twelve bytes of a key that hold its window, or refer to where it lies. They are in the key's
// bucket or in its handle slot; only a packing knows what a window is (window_cell.hpp).
// Shape:  word   bit 30 is `indirect`; all others are the packing's
//         tail   23..18 policy (policy_classes.hpp); all others are the packing's
//         An indirect cell holds no window, and its tail is an index: of a handle slot where the
//         word's lowest bit is set (handle_book.hpp), else of an extra (key_extra.hpp). A vacant
//         handle slot is indirect too, so that one test finds every cell without a window.
// Lives:  a view, until the key moves.
#pragma once

#include <cstdint>

#include "base/assert.hpp"

namespace sluice::shard {

class KeyCell {
 public:
  static constexpr uint32_t policies_count = 64;

  KeyCell(uint64_t& word, uint32_t& tail) noexcept : word_(&word), tail_(&tail) {}

  bool is_indirect() const noexcept { return (*word_ & indirect_bit) != 0; }
  bool has_extra() const noexcept {
    return (*word_ & (indirect_bit | handle_slot_bit)) == indirect_bit;
  }
  bool has_handle_slot() const noexcept {
    return (*word_ & (indirect_bit | handle_slot_bit)) == (indirect_bit | handle_slot_bit);
  }
  // Of a handle slot: no key's window lies here.
  bool is_vacant() const noexcept { return has_handle_slot() && *tail_ == no_index; }

  uint32_t extra() const noexcept {
    DEBUG_ASSERT(has_extra());
    return *tail_;
  }
  uint32_t handle_slot() const noexcept {
    DEBUG_ASSERT(has_handle_slot());
    return *tail_;
  }
  void set_extra(uint32_t index) noexcept { set(indirect_bit, index); }
  void set_handle_slot(uint32_t index) noexcept { set(indirect_bit | handle_slot_bit, index); }
  void set_vacant() noexcept { set(indirect_bit | handle_slot_bit, no_index); }
  void copy(KeyCell from) noexcept { set(*from.word_, *from.tail_); }

  // Of a window that lies here.
  uint32_t policy() const noexcept {
    DEBUG_ASSERT(!is_indirect());
    return *tail_ >> policy_shift & (policies_count - 1);
  }

 protected:
  static constexpr uint32_t policy_shift = 18;
  static constexpr uint64_t indirect_bit = 1U << 30;

  uint64_t& word() const noexcept { return *word_; }
  uint32_t& tail() const noexcept { return *tail_; }
  void set(uint64_t word, uint32_t tail) noexcept {
    *word_ = word;
    *tail_ = tail;
  }

 private:
  static constexpr uint64_t handle_slot_bit = 1;
  static constexpr uint32_t no_index = 0xFFFF'FFFF;

  uint64_t* word_;
  uint32_t* tail_;
};

}  // namespace sluice::shard
