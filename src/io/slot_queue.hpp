// A first in, first out queue of slots, chained through a member of theirs.
// Shape:  a slot is in it at most once; pushing it again keeps its place. Never allocates.
#pragma once

#include <cstdint>
#include <span>

#include "base/assert.hpp"

namespace sluice::io {

struct SlotLink {
  uint32_t next = 0;
  bool queued = false;
};

template <typename Slot, auto link>  // link: which SlotLink of Slot
class SlotQueue {
 public:
  explicit SlotQueue(std::span<Slot> slots) noexcept : slots_(slots) {}

  bool empty() const noexcept { return size_ == 0; }
  uint32_t size() const noexcept { return size_; }
  uint32_t front() const noexcept { return first_; }

  void push(uint32_t index) noexcept {
    SlotLink& own = slots_[index].*link;
    if (own.queued) return;
    own = {.next = none, .queued = true};
    if (size_ == 0) {
      first_ = index;
    } else {
      (slots_[last_].*link).next = index;
    }
    last_ = index;
    ++size_;
  }

  uint32_t pop() noexcept {
    ASSERT(size_ > 0);
    const uint32_t index = first_;
    SlotLink& own = slots_[index].*link;
    own.queued = false;
    first_ = own.next;
    --size_;
    return index;
  }

 private:
  static constexpr uint32_t none = 0xFFFF'FFFF;

  std::span<Slot> slots_;
  uint32_t first_ = none;
  uint32_t last_ = none;
  uint32_t size_ = 0;
};

}  // namespace sluice::io
