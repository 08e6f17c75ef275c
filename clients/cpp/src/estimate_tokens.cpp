#include <algorithm>

#include "sluicegate/quota.hpp"

namespace sluicegate {

uint64_t estimate_tokens(std::string_view text) noexcept {
  constexpr uint64_t characters_of_a_token = 4;
  // Each character has one byte that continues no other.
  const auto characters = static_cast<uint64_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
  return (characters + characters_of_a_token - 1) / characters_of_a_token;
}

}  // namespace sluicegate
