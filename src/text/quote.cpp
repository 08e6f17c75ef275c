#include "text/quote.hpp"

#include <cstdint>

#include "text/number.hpp"
#include "text/utf8.hpp"

namespace sluice::text {
namespace {

constexpr size_t excerpt_bytes_max = 60;

// Controls, blanks other than ' ', formats, private characters, and code points that are none.
// (Go's tables also have the characters that are not assigned yet.)
bool is_printable(uint32_t rune) noexcept {
  if (rune < 0x20 || (rune >= 0x7F && rune <= 0xA0) || rune == 0xAD) return false;
  if (rune == 0x1680 || (rune >= 0x2000 && rune <= 0x200F) || rune == 0x3000) return false;
  if ((rune >= 0x2028 && rune <= 0x202F) || (rune >= 0x205F && rune <= 0x206F)) return false;
  if ((rune >= 0xE000 && rune <= 0xF8FF) || rune == 0xFEFF) return false;
  return rune < 0xF0000 && (rune & 0xFFFEU) != 0xFFFE;
}

// The start of the character with the byte at `at`; `at` itself where that is not UTF-8.
size_t begin_of_character(std::string_view text, size_t at) noexcept {
  for (size_t back = 1; back < 4 && back <= at; ++back) {
    if (first_character(text.substr(at - back)).bytes > back) return at - back;
  }
  return at;
}

}  // namespace

std::string shortened(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string{text};
  return std::string{text.substr(0, begin_of_character(text, bytes_max))} + "\u2026";
}

bool needs_quotes(std::string_view text) noexcept {
  if (text.empty()) return true;
  while (!text.empty()) {
    const Character rune = first_character(text);
    if (!rune.value) return true;
    const uint32_t value = *rune.value;
    if (value == ' ' || value == '"' || value == '=') return true;
    if (value != 0x7F && !is_printable(value)) return true;  // slog does not quote DEL
    text.remove_prefix(rune.bytes);
  }
  return false;
}

std::string in_quotes(std::string_view text) {
  std::string quoted = "\"";
  const auto escape = [&quoted](char kind, uint32_t value, size_t digits) {
    quoted += {'\\', kind};
    quoted.resize(quoted.size() + digits);
    write_hex(value, quoted.data() + quoted.size() - digits, digits);
  };
  while (!text.empty()) {
    const Character rune = first_character(text);
    const std::string_view bytes = text.substr(0, rune.bytes);
    constexpr std::string_view named = "\a\b\f\n\r\t\v\\\"";
    constexpr std::string_view names = "abfnrtv\\\"";
    const size_t name = bytes.size() == 1 ? named.find(bytes[0]) : named.npos;
    if (name != named.npos) {
      quoted += {'\\', names[name]};
    } else if (!rune.value) {
      escape('x', static_cast<unsigned char>(bytes[0]), 2);
    } else if (is_printable(*rune.value)) {
      quoted += bytes;
    } else if (*rune.value < 0x80) {
      escape('x', *rune.value, 2);
    } else if (*rune.value < 0x10000) {
      escape('u', *rune.value, 4);
    } else {
      escape('U', *rune.value, 8);
    }
    text.remove_prefix(rune.bytes);
  }
  return quoted += '"';
}

std::string quoted_excerpt(std::string_view text) {
  return in_quotes(shortened(text, excerpt_bytes_max));
}

}  // namespace sluice::text
