#include "text/number.hpp"

#include <limits>

namespace sluice::text {

std::string hex_id(uint64_t id) {
  std::string text(16, '0');
  write_hex(id, text.data(), text.size());
  return text;
}

std::optional<uint64_t> parse_hex_id(std::string_view text) noexcept {
  if (text.size() != 16 || text.find_first_of("ABCDEF") != text.npos) return std::nullopt;
  return parse_whole<uint64_t>(text, 16);
}

std::optional<int32_t> parse_int32(std::string_view text) noexcept {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  int64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
    if (value > int64_t{std::numeric_limits<int32_t>::max()} + 1) return std::nullopt;
  }
  if (negative) value = -value;
  if (value > std::numeric_limits<int32_t>::max()) return std::nullopt;
  return static_cast<int32_t>(value);
}

std::optional<bool> parse_bool(std::string_view text) noexcept {
  for (std::string_view word : {"1", "t", "T", "TRUE", "true", "True"}) {
    if (text == word) return true;
  }
  for (std::string_view word : {"0", "f", "F", "FALSE", "false", "False"}) {
    if (text == word) return false;
  }
  return std::nullopt;
}

}  // namespace sluice::text
