// Replies of one connection: one buffer is being written, the other may be with the kernel.
// Flow:   room() and commit() at the end of the one; take_for_sending() swaps when nothing is in
//         flight; sent() frees the other.
// Units:  bytes.
// Errors: none: the writer has checked capacity before (Connection::output_over_high()).
// Lives:  a span in flight stays untouched until sent(); memory is the ConnectionMemory's.
// Source: one send in flight per socket; two would interleave (docs/architecture.md).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/assert.hpp"

namespace sluice::net {

class OutputBuffer {
 public:
  OutputBuffer() = default;
  OutputBuffer(std::span<std::byte> first, std::span<std::byte> second) noexcept
      : memory_{first, second} {}

  // `bytes` of room behind what is written; 8-byte aligned as long as whole words are committed.
  std::span<std::byte> room(size_t bytes) const noexcept {
    ASSERT(used_ + bytes <= memory_[writing_].size());
    return memory_[writing_].subspan(used_, bytes);
  }

  void commit(size_t bytes) noexcept {
    ASSERT(used_ + bytes <= memory_[writing_].size());
    used_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, used_);
  }

  size_t unsent_bytes() const noexcept { return used_; }
  std::span<const std::byte> written() const noexcept { return memory_[writing_].first(used_); }
  std::span<const std::byte> sending() const noexcept {
    return memory_[writing_ ^ 1].first(in_flight_);
  }
  uint64_t sends_count() const noexcept { return sends_count_; }
  bool in_flight() const noexcept { return in_flight_ > 0; }
  bool empty() const noexcept { return used_ == 0 && in_flight_ == 0; }
  size_t peak_bytes() const noexcept { return peak_bytes_; }

  std::span<const std::byte> take_for_sending() noexcept {
    ASSERT(!in_flight() && used_ > 0);
    const auto bytes = memory_[writing_].first(used_);
    in_flight_ = used_;
    used_ = 0;
    ++sends_count_;
    writing_ ^= 1;
    return bytes;
  }

  void sent() noexcept {
    ASSERT(in_flight());
    in_flight_ = 0;
  }

  void reset_peak() noexcept { peak_bytes_ = 0; }

 private:
  std::array<std::span<std::byte>, 2> memory_;
  size_t used_ = 0;       // of the buffer that is being written
  size_t in_flight_ = 0;  // of the other
  size_t writing_ = 0;
  size_t peak_bytes_ = 0;
  uint64_t sends_count_ = 0;  // begun
};

}  // namespace sluice::net
