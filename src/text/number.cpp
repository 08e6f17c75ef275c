#include "text/number.hpp"

#include <utility>

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

std::optional<int64_t> parse_int64(std::string_view text) noexcept {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  return parse_whole<int64_t>(text);
}

std::optional<int32_t> parse_int32(std::string_view text) noexcept {
  const std::optional<int64_t> value = parse_int64(text);
  if (!value || !std::in_range<int32_t>(*value)) return std::nullopt;
  return static_cast<int32_t>(*value);
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
