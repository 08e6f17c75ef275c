#include "quota/owner_names.hpp"

#include <algorithm>
#include <cstring>

#include "base/limits.hpp"

namespace sluice::quota {
namespace {

constexpr uint32_t names_min = 16'384;  // waiters have some, too
constexpr size_t block_bytes_max = 1 + limits::client_id_bytes_max;

}  // namespace

OwnerNames::OwnerNames(uint32_t reservations_max)
    : names_max_(std::max(reservations_max, names_min)),
      memory_(names_max_, block_bytes_max, "owners of reservations (--max-reservations)") {}

OwnerNames::Block OwnerNames::keep(std::string_view owner) noexcept {
  if (owner.empty() || names_count_ == names_max_) return none;
  ++names_count_;
  std::byte* const block = memory_.take(1 + owner.size());
  *block = static_cast<std::byte>(owner.size());
  std::memcpy(block + 1, owner.data(), owner.size());
  return memory_.line_of(block);
}

std::string_view OwnerNames::at(Block block) const noexcept {
  if (block == none) return {};
  const std::byte* const at = memory_.at_line(block);
  return {reinterpret_cast<const char*>(at + 1), static_cast<size_t>(*at)};
}

void OwnerNames::drop_kept(Block block) noexcept {
  --names_count_;
  memory_.free(memory_.at_line(block), 1 + at(block).size());
}

}  // namespace sluice::quota
