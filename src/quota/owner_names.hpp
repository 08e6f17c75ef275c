// Names of the owners of reservations and waiters, for people to read; few have one.
// Shape:  blocks of an arena, each with the length before the text.
// Errors: keep() gives `none` when the arena is full: then the owner is not known.
// Lives:  one thread only; a name until it is dropped.
#pragma once

#include <cstdint>
#include <string_view>

#include "quota/block_arena.hpp"

namespace sluice::quota {

class OwnerNames {
 public:
  using Block = BlockArena::Block;
  static constexpr Block none = BlockArena::none;

  explicit OwnerNames(uint32_t reservations_max);

  Block keep(std::string_view owner) noexcept;
  // Empty for `none`.
  std::string_view at(Block block) const noexcept;
  void drop(Block block) noexcept {
    if (block != none) memory_.free(block, 1 + at(block).size());
  }
  uint64_t reserved_bytes() const noexcept { return memory_.reserved_bytes(); }

 private:
  BlockArena memory_;
};

}  // namespace sluice::quota
