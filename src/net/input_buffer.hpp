// Received bytes of one connection that cannot be parsed where they were received: the partial tail
// of a frame, or bytes that arrived while reading is stopped.
// Shape:  linear: [referenced by this turn's entries | unparsed | free]. Appending never moves
//         what an entry of this turn may point at; later turns reuse the space before `unparsed`.
// Units:  bytes; while only whole 8-byte words are consumed, unparsed() is 8-byte aligned.
// Errors: append() refuses what does not fit: the caller executes the turn and compacts, or closes.
// Lives:  ConnectionMemory owns the memory; one thread only.
#pragma once

#include <cstring>
#include <span>

#include "base/assert.hpp"

namespace sluice::net {

class InputBuffer {
 public:
  InputBuffer() = default;
  explicit InputBuffer(std::span<std::byte> memory) noexcept : memory_(memory) {}

  std::span<std::byte> unparsed() const noexcept { return memory_.subspan(begin_, end_ - begin_); }
  bool empty() const noexcept { return begin_ == end_; }
  size_t peak_bytes() const noexcept { return peak_bytes_; }

  void consume(size_t bytes) noexcept {
    ASSERT(bytes <= end_ - begin_);
    begin_ += bytes;
  }

  [[nodiscard]] bool append(std::span<const std::byte> bytes) noexcept {
    if (empty()) begin_ = end_ = (end_ + 7) & ~size_t{7};
    if (end_ > memory_.size() || bytes.size() > memory_.size() - end_) return false;
    if (!bytes.empty()) std::memcpy(memory_.data() + end_, bytes.data(), bytes.size());
    end_ += bytes.size();
    if (end_ > peak_bytes_) peak_bytes_ = end_;
    return true;
  }

  // Makes the space before `unparsed` free again. Only after the turn was executed: until then its
  // entries point there.
  void compact() noexcept {
    if (begin_ == 0) return;
    const size_t left = end_ - begin_;
    if (left > 0) std::memmove(memory_.data(), memory_.data() + begin_, left);
    begin_ = 0;
    end_ = left;
  }

  void clear() noexcept { begin_ = end_ = 0; }
  void reset_peak() noexcept { peak_bytes_ = end_; }

 private:
  std::span<std::byte> memory_;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t peak_bytes_ = 0;  // memory up to here was written since reset_peak()
};

}  // namespace sluice::net
