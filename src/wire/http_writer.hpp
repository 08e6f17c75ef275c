// Appends the pieces of an HTTP answer to a buffer: text, numbers, dates; JSON by a JsonWriter.
// Shape:  numbers are plain decimal; dates are as in "Sun, 06 Nov 1994 08:49:37 GMT".
// Errors: a buffer that is too small is our own bug: ASSERT, never an overflow.
// Lives:  borrows the buffer; no allocation, no locale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/assert.hpp"

namespace sluice::wire {

class HttpWriter {
 public:
  explicit HttpWriter(std::span<std::byte> out) noexcept : out_(out) {}

  void text(std::string_view text) noexcept {
    ASSERT(text.size() <= out_.size() - size_bytes_);
    if (text.empty()) return;
    std::memcpy(out_.data() + size_bytes_, text.data(), text.size());
    size_bytes_ += text.size();
  }

  void decimal(int64_t value) noexcept;
  void decimal_unsigned(uint64_t value) noexcept;
  void hexadecimal(uint64_t value) noexcept;
  void status(uint16_t value) noexcept;  // three digits
  void date(int64_t wall_ns) noexcept;

  // Moves `tail_bytes` from `tail_start` of `out` to the end of the written bytes: a body that had
  // to be written first, because the head contains its length.
  void append_tail(size_t tail_start, size_t tail_bytes) noexcept;

  size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  void write_date(int64_t second) noexcept;
  void two_digits(uint32_t value) noexcept;
  void four_digits(uint32_t value) noexcept;

  std::span<std::byte> out_;
  size_t size_bytes_ = 0;
};

}  // namespace sluice::wire
