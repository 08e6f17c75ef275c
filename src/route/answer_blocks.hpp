// Memory for the answers to requests of which several shards decide a part.
// Shape:  blocks of eight sizes, each four times the one before. Every size has address space for
//         `bytes_max`, and pages as they are touched: blocks of one size never lack the room that
//         those of another have had. The block freed last is the first to be taken again.
// Bounds: the caller counts; take() of more than `bytes_max` together must not happen.
// Lives:  one thread only.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/assert.hpp"
#include "base/mapped_region.hpp"

namespace sluice::route {

class AnswerBlocks {
 public:
  static constexpr size_t smallest_bytes = 64;
  static constexpr size_t sizes_count = 8;
  static constexpr size_t largest_bytes = smallest_bytes << 2 * (sizes_count - 1);

  // `bytes_max` is a multiple of the smallest block, so that all are aligned.
  explicit AnswerBlocks(size_t bytes_max)
      : bytes_max_(bytes_max), memory_(bytes_max * sizes_count, "answers of several shards") {
    ASSERT(bytes_max % smallest_bytes == 0);
  }

  // What a block for so many bytes takes.
  static constexpr size_t block_bytes(size_t bytes) noexcept {
    return smallest_bytes << 2 * size_of(bytes);
  }

  std::byte* take(size_t bytes) noexcept {
    Size& size = sizes_[size_of(bytes)];
    if (size.free != nullptr) return reinterpret_cast<std::byte*>(pop(size));
    const size_t place = size_of(bytes) * bytes_max_ + size.used_bytes;
    size.used_bytes += block_bytes(bytes);
    ASSERT(size.used_bytes <= bytes_max_);
    return memory_.data() + place;
  }

  // A block that was taken for so many bytes.
  void free(std::byte* block, size_t bytes) noexcept {
    Size& size = sizes_[size_of(bytes)];
    size.free = new (block) Free{size.free};
  }

  uint64_t reserved_bytes() const noexcept { return memory_.size(); }

 private:
  struct Free {
    Free* next;
  };
  struct Size {
    Free* free = nullptr;
    size_t used_bytes = 0;  // from the front; never used behind them
  };

  static constexpr size_t size_of(size_t bytes) noexcept {
    DEBUG_ASSERT(bytes <= largest_bytes);
    const size_t units = (bytes + smallest_bytes - 1) / smallest_bytes;
    return units <= 1 ? 0 : (static_cast<size_t>(std::bit_width(units - 1)) + 1) / 2;
  }
  static Free* pop(Size& size) noexcept {
    Free* const free = size.free;
    size.free = free->next;
    return free;
  }

  const size_t bytes_max_;
  base::MappedRegion memory_;
  std::array<Size, sizes_count> sizes_{};
};

}  // namespace sluice::route
