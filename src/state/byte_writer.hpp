// Writes numbers and text one behind another, for the parts that survive a restart.
// Shape:  words are little-endian and need no alignment; a varint has 7 bits of the number in each
//         byte, the lowest first, and the upper bit set in all but the last (LEB128); a text is its
//         length as a varint, and its bytes.
// Errors: none: the caller has made room for the most that it writes.
// Lives:  while one record is written; the bytes belong to the caller.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/assert.hpp"

namespace sluice::state {

static_assert(std::endian::native == std::endian::little);

inline constexpr size_t varint_bytes_max = 10;

// Numbers near zero of either sign become small ones: 0, -1, 1, -2, ...
constexpr uint64_t zigzag(int64_t value) noexcept {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
constexpr int64_t from_zigzag(uint64_t value) noexcept {
  return static_cast<int64_t>((value >> 1) ^ (0 - (value & 1)));
}

class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> room) noexcept
      : begin_(room.data()), at_(begin_), end_(begin_ + room.size()) {}

  template <std::unsigned_integral T>
  void word(T value) noexcept {
    DEBUG_ASSERT(room() >= sizeof value);
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
  }

  void varint(uint64_t value) noexcept {
    DEBUG_ASSERT(room() >= varint_bytes_max);
    while (value >= 0x80) {
      *at_++ = static_cast<std::byte>(value | 0x80);
      value >>= 7;
    }
    *at_++ = static_cast<std::byte>(value);
  }

  void text(std::string_view text) noexcept {
    varint(text.size());
    DEBUG_ASSERT(room() >= text.size());
    if (!text.empty()) std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }

  // Writes a word that an earlier one left room for.
  template <std::unsigned_integral T>
  void overwrite(size_t position, T value) noexcept {
    DEBUG_ASSERT(position + sizeof value <= size());
    std::memcpy(begin_ + position, &value, sizeof value);
  }

  // Bytes written so far.
  size_t size() const noexcept { return static_cast<size_t>(at_ - begin_); }

 private:
  size_t room() const noexcept { return static_cast<size_t>(end_ - at_); }

  std::byte* begin_;
  std::byte* at_;
  std::byte* end_;
};

}  // namespace sluice::state
