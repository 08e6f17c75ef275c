// Numbers as text and back: whole numbers, ids of 16 hexadecimal digits, switches.
// Shape:  parse_int32(), parse_int64() and parse_bool() accept the same texts as Go's strconv, the
//         others digits only.
// Errors: std::nullopt for a text that does not parse or a number that does not fit; never throws.
// Lives:  only hex_id() allocates, for its text; no locale.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::text {

// Room for the digits of any whole number.
using DigitBuffer = std::array<char, 20>;

// The decimal digits of a whole number; they lie in the buffer.
template <std::integral Number>
std::string_view digits(Number value, DigitBuffer& buffer) noexcept {
  char* const begin = buffer.data();
  const char* const end = std::to_chars(begin, begin + buffer.size(), value).ptr;
  return {begin, static_cast<size_t>(end - begin)};
}
// The hexadecimal digits of a number, lower-case.
inline std::string_view hex_digits(uint64_t value, DigitBuffer& buffer) noexcept {
  char* const begin = buffer.data();
  const char* const end = std::to_chars(begin, begin + buffer.size(), value, 16).ptr;
  return {begin, static_cast<size_t>(end - begin)};
}

// Digits and nothing else; a '-' in front if the type has a sign.
template <std::integral Number>
std::optional<Number> parse_whole(std::string_view text, int base = 10) noexcept {
  Number value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, value, base);
  if (fault != std::errc{} || stop != end) return std::nullopt;
  return value;
}

// An id as REST and the command line show it: 16 lower-case hexadecimal digits.
std::string hex_id(uint64_t id);
std::optional<uint64_t> parse_hex_id(std::string_view text) noexcept;

// 0 to 15, or -1.
constexpr int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The lowest `digits` hexadecimal digits of `value`, the highest of them first.
constexpr void write_hex(uint64_t value, char* out, size_t digits) noexcept {
  for (size_t i = digits; i-- > 0; value >>= 4) out[i] = "0123456789abcdef"[value & 15];
}

// Decimal digits behind an optional sign, within 32 or 64 bits.
std::optional<int32_t> parse_int32(std::string_view text) noexcept;
std::optional<int64_t> parse_int64(std::string_view text) noexcept;

// Exactly the words that Go's strconv.ParseBool knows.
std::optional<bool> parse_bool(std::string_view text) noexcept;

}  // namespace sluice::text
