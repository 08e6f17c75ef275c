#include "text/utf8.hpp"

namespace sluice::text {

Character first_character(std::string_view text) noexcept {
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

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (!character.value) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

}  // namespace sluice::text
