// Reads what a ByteWriter wrote, and never beyond its bytes, whatever they are.
// Flow:   read everything; then is_damaged(), once, before anything that was read is used.
// Errors: damage stays: when a value does not lie within the bytes, or its encoding is not the one
//         that a ByteWriter chooses, it and all later ones are 0 or empty.
// Lives:  texts and bytes point into the caller's.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "state/byte_writer.hpp"

namespace sluice::state {

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) noexcept
      : at_(bytes.data()), end_(at_ + bytes.size()) {}

  template <std::unsigned_integral T>
  T word() noexcept {
    T value = 0;
    if (left() < sizeof value) {
      fail();
      return 0;
    }
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  uint64_t varint() noexcept {
    if (at_ != end_ && (*at_ & more) == std::byte{0}) return static_cast<uint64_t>(*at_++);
    return long_varint();
  }

  // No more than `bytes_max`.
  std::string_view text(size_t bytes_max) noexcept {
    const uint64_t length = varint();
    if (length > bytes_max) fail();
    const std::span<const std::byte> found = bytes(length);
    return {reinterpret_cast<const char*>(found.data()), found.size()};
  }

  std::span<const std::byte> bytes(uint64_t count) noexcept {
    if (left() < count) fail();
    if (is_damaged_) return {};
    const std::span<const std::byte> found(at_, count);
    at_ += count;
    return found;
  }
  std::span<const std::byte> rest() noexcept { return bytes(left()); }

  size_t left() const noexcept { return static_cast<size_t>(end_ - at_); }
  bool is_damaged() const noexcept { return is_damaged_; }
  // A value was read that cannot be.
  void fail() noexcept {
    at_ = end_;
    is_damaged_ = true;
  }

 private:
  static constexpr std::byte more{0x80};

  uint64_t long_varint() noexcept {
    uint64_t value = 0;
    for (uint32_t shift = 0; at_ != end_ && shift < 64; shift += 7) {
      const auto byte = static_cast<uint64_t>(*at_++);
      value |= (byte & 0x7F) << shift;
      if (byte >= 0x80) continue;
      const bool is_shortest = byte != 0;
      const bool fits = shift < 63 || byte == 1;
      if (is_shortest && fits) return value;
      break;
    }
    fail();
    return 0;
  }

  const std::byte* at_;
  const std::byte* end_;
  bool is_damaged_ = false;
};

}  // namespace sluice::state
