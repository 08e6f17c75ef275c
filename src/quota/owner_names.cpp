#include "quota/owner_names.hpp"

#include <algorithm>
#include <cstring>

namespace sluice::quota {
namespace {

constexpr size_t name_bytes = 192;  // a block of the longest with its length
constexpr size_t arena_bytes_min = 4 * 1024 * 1024;

}  // namespace

OwnerNames::OwnerNames(uint32_t reservations_max)
    : memory_(std::max(reservations_max * name_bytes, arena_bytes_min),
              "owners of reservations (--max-reservations)") {}

OwnerNames::Block OwnerNames::keep(std::string_view owner) noexcept {
  if (owner.empty()) return none;
  const Block block = memory_.take(1 + owner.size());
  if (block == none) return block;
  std::byte* const at = memory_.at(block);
  *at = static_cast<std::byte>(owner.size());
  std::memcpy(at + 1, owner.data(), owner.size());
  return block;
}

std::string_view OwnerNames::at(Block block) const noexcept {
  if (block == none) return {};
  const std::byte* const at = memory_.at(block);
  return {reinterpret_cast<const char*>(at + 1), static_cast<size_t>(*at)};
}

}  // namespace sluice::quota
