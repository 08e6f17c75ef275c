// A queue of pointers to lent objects between two threads: one pushes, the other pops.
// Shape:  as many places as there are objects to lend, so that it is never full.
// Lives:  tail() and pop() belong to one thread, push() to another. What the pusher wrote before
//         push() is visible after pop(). The order is sequentially consistent, as Doorbell needs.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/assert.hpp"

namespace sluice::route {

template <typename T>
class Ring {
 public:
  explicit Ring(uint32_t items_max) : places_(std::bit_ceil(items_max)) {}
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void push(T* item) noexcept {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    places_[tail & (places_.size() - 1)] = item;
    tail_.store(tail + 1, std::memory_order_seq_cst);
  }

  // How many pointers have been pushed since the start.
  uint64_t tail() const noexcept { return tail_.load(std::memory_order_seq_cst); }

  // The next pointer if it was pushed before `tail` was read; else null.
  T* pop(uint64_t tail) noexcept {
    if (head_ == tail) return nullptr;
    DEBUG_ASSERT(tail - head_ <= places_.size());
    return places_[head_++ & (places_.size() - 1)];
  }

  bool empty() const noexcept { return tail() == head_; }

 private:
  std::vector<T*> places_;
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) uint64_t head_ = 0;
};

}  // namespace sluice::route
