// Names of the owners of reservations and waiters, for people to read; few have one.
// Shape:  blocks of an arena, whole cache lines each, with the length before the text.
// Errors: keep() returns `none` when the arena is full: then the reservation has no owner name.
// Lives:  one thread only; a name until it is dropped.
#pragma once

#include <cstdint>
#include <string_view>

#include "quota/slab_arena.hpp"

namespace sluice::quota {

class OwnerNames {
 public:
  using Block = uint32_t;
  static constexpr Block none = 0xFFFF'FFFF;

  explicit OwnerNames(uint32_t reservations_max);

  Block keep(std::string_view owner) noexcept;
  // Empty for `none`.
  std::string_view at(Block block) const noexcept;
  void drop(Block block) noexcept {
    if (block != none) drop_kept(block);
  }
  uint64_t reserved_bytes() const noexcept { return memory_.reserved_bytes(); }

 private:
  void drop_kept(Block block) noexcept;

  uint32_t names_max_;
  uint32_t names_count_ = 0;
  SlabArena memory_;
};

}  // namespace sluice::quota
