// Entries of a SplitBook that wait for one target, by their slots, first in, first out.
// Shape:  a list through `next`, which the queues of all targets share: a slot is in one of them.
// Lives:  `next` has an element for every slot, and outlives the queue.
#pragma once

#include <cstdint>
#include <span>

namespace sluice::route {

class EntryQueue {
 public:
  explicit EntryQueue(std::span<uint32_t> next) noexcept : next_(next) {}

  bool empty() const noexcept { return first_ == none; }
  void push(uint32_t slot) noexcept {
    next_[slot] = none;
    (first_ == none ? first_ : next_[last_]) = slot;
    last_ = slot;
  }
  // The queue is not empty.
  uint32_t pop() noexcept {
    const uint32_t slot = first_;
    first_ = next_[slot];
    return slot;
  }

 private:
  static constexpr uint32_t none = 0xFFFF'FFFF;

  std::span<uint32_t> next_;
  uint32_t first_ = none;
  uint32_t last_ = none;
};

}  // namespace sluice::route
