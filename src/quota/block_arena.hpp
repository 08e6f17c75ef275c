// Memory in blocks of many sizes, named by number: what few reservations have.
// Shape:  one reserved region; a block is one of a few sizes, and goes to the list of its size when
//         it is given back. When the region is used up a larger block is split; none are joined.
// Units:  bytes; a block begins at a multiple of 16.
// Errors: take() gives `none` when the region is full.
// Lives:  one core; pages are committed as blocks come into use.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/assert.hpp"
#include "base/mapped_region.hpp"

namespace sluice::quota {

class BlockArena {
 public:
  using Block = uint32_t;
  static constexpr Block none = 0;  // nothing lies at the beginning
  static constexpr size_t block_bytes_max = 128 * 1024;

  BlockArena(size_t bytes, std::string_view purpose) : region_(bytes, purpose) {}

  Block take(size_t bytes) noexcept {
    const size_t size = size_class(bytes);
    if (free_[size] != none) return pop(size);
    const size_t begin = end_;
    if (region_.size() - begin < class_bytes(size)) return split_larger(size);
    end_ += class_bytes(size);
    return static_cast<Block>(begin / grain);
  }

  // With the size that it was taken with.
  void free(Block block, size_t bytes) noexcept {
    if (block == none) return;
    push(block, size_class(bytes));
  }

  std::byte* at(Block block) noexcept { return region_.data() + size_t{block} * grain; }
  const std::byte* at(Block block) const noexcept { return region_.data() + size_t{block} * grain; }
  uint64_t reserved_bytes() const noexcept { return region_.size(); }

 private:
  static constexpr size_t grain = 16;
  static constexpr size_t classes_count = 28;

  // 16, then two sizes for every power of two: 24 (as 32), 32, 48, 64, 96, 128, ...
  static size_t size_class(size_t bytes) noexcept {
    ASSERT(bytes > 0 && bytes <= block_bytes_max);
    if (bytes <= grain) return 0;
    const auto power = static_cast<size_t>(std::bit_width(bytes - 1));  // 2^power holds them
    const bool three_quarters = power > 5 && bytes <= (size_t{3} << (power - 2));
    return 2 * (power - 4) - (three_quarters ? 1 : 0);
  }
  static size_t class_bytes(size_t size) noexcept {
    if (size % 2 == 0) return grain << (size / 2);
    return (size_t{3} << ((size + 1) / 2 + 2));
  }

  Block pop(size_t size) noexcept {
    const Block block = free_[size];
    std::memcpy(&free_[size], at(block), sizeof(Block));
    return block;
  }
  void push(Block block, size_t size) noexcept {
    std::memcpy(at(block), &free_[size], sizeof(Block));
    free_[size] = block;
  }

  // The front of a free block that is larger; the rest of it goes to the lists of its parts.
  Block split_larger(size_t size) noexcept {
    size_t larger = size + 1;
    while (larger < classes_count && free_[larger] == none) ++larger;
    if (larger == classes_count) return none;
    const Block block = pop(larger);
    size_t used = class_bytes(size);
    while (used < class_bytes(larger)) {
      const size_t part = largest_within(class_bytes(larger) - used);
      push(block + static_cast<Block>(used / grain), part);
      used += class_bytes(part);
    }
    return block;
  }
  static size_t largest_within(size_t bytes) noexcept {
    const size_t size = size_class(bytes);
    if (class_bytes(size) == bytes) return size;
    return size == 2 ? 0 : size - 1;  // nothing has 24 bytes
  }

  base::MappedRegion region_;
  size_t end_ = grain;
  std::array<Block, classes_count> free_{};
};

}  // namespace sluice::quota
