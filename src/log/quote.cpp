#include "log/quote.hpp"

#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <optional>

namespace sluice::log {
namespace {

// A character and how long it is; no value: a byte that is no UTF-8.
struct Rune {
  std::optional<uint32_t> value;
  size_t bytes = 1;
};

Rune first_rune(std::string_view text) noexcept {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  if (byte(0) < 0x80) return {.value = byte(0)};
  const size_t bytes = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < bytes) return {};
  uint32_t value = byte(0) & (0xFFU >> (bytes + 1));
  for (size_t at = 1; at < bytes; ++at) {
    if ((byte(at) & 0xC0U) != 0x80) return {};
    value = (value << 6) | (byte(at) & 0x3FU);
  }
  const bool overlong = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (overlong || surrogate || value > 0x10FFFF) return {};
  return {.value = value, .bytes = bytes};
}

// Controls, blanks other than ' ', formats, what is private or no character. (Go's tables also know
// which characters are not assigned yet.)
bool prints(uint32_t rune) noexcept {
  if (rune < 0x20 || (rune >= 0x7F && rune <= 0xA0) || rune == 0xAD) return false;
  if (rune == 0x1680 || (rune >= 0x2000 && rune <= 0x200F) || rune == 0x3000) return false;
  if ((rune >= 0x2028 && rune <= 0x202F) || (rune >= 0x205F && rune <= 0x206F)) return false;
  if ((rune >= 0xE000 && rune <= 0xF8FF) || rune == 0xFEFF) return false;
  return rune < 0xF0000 && (rune & 0xFFFEU) != 0xFFFE;
}

// Where the character begins that has the byte at `at`; `at` itself where that is no UTF-8.
size_t begin_of_character(std::string_view text, size_t at) noexcept {
  for (size_t back = 1; back < 4 && back <= at; ++back) {
    if (first_rune(text.substr(at - back)).bytes > back) return at - back;
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
    const Rune rune = first_rune(text);
    if (!rune.value) return true;
    const uint32_t value = *rune.value;
    if (value == ' ' || value == '"' || value == '=') return true;
    if (value != 0x7F && !prints(value)) return true;  // slog lets DEL pass
    text.remove_prefix(rune.bytes);
  }
  return false;
}

std::string in_quotes(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const Rune rune = first_rune(text);
    const std::string_view bytes = text.substr(0, rune.bytes);
    constexpr std::string_view named = "\a\b\f\n\r\t\v\\\"";
    constexpr std::string_view names = "abfnrtv\\\"";
    const size_t name = bytes.size() == 1 ? named.find(bytes[0]) : named.npos;
    if (name != named.npos) {
      quoted += {'\\', names[name]};
    } else if (!rune.value) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
    } else if (prints(*rune.value)) {
      quoted += bytes;
    } else if (*rune.value < 0x80) {
      quoted += fmt::format("\\x{:02x}", *rune.value);
    } else if (*rune.value < 0x10000) {
      quoted += fmt::format("\\u{:04x}", *rune.value);
    } else {
      quoted += fmt::format("\\U{:08x}", *rune.value);
    }
    text.remove_prefix(rune.bytes);
  }
  return quoted += '"';
}

}  // namespace sluice::log
