// Blocks of memory that are kept when they are freed, for what comes and goes by the thousand in a
// few sizes. malloc() keeps only a few of each size at hand.
// Shape:  a list of free blocks for each size; larger ones are malloc()'s and go back to it.
// Units:  sizes are 16 n + 8 bytes, which is what a block of malloc()'s holds.
// Errors: null where malloc() has no memory.
// Bounds: keeps at most as many bytes as it was given.
// Lives:  one thread; outlives its blocks. AddressSanitizer reports who uses one that is kept.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>

#ifdef SLUICE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace sluice::base {

class BlockPool {
 public:
  static constexpr size_t block_bytes_max = 1'032;  // of those that are kept

  explicit BlockPool(size_t kept_bytes_max) noexcept : kept_bytes_max_(kept_bytes_max) {}
  ~BlockPool() {
    for (Free*& list : free_) {
      while (list != nullptr) std::free(pop(list));
    }
  }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  void* take(size_t bytes) noexcept {
    if (bytes > block_bytes_max) return std::malloc(bytes);
    const size_t place = (std::max(bytes, bytes_at(0)) + 7) / 16 - 1;
    if (free_[place] == nullptr) return std::malloc(bytes_at(place));
    kept_bytes_ -= bytes_at(place);
    return pop(free_[place]);
  }
  // Of any block that take() or resize() returned; null is none.
  void give(void* block) noexcept { give(block, size_of(block)); }
  void give(void* block, size_t bytes) noexcept {  // that it holds
    if (bytes < bytes_at(0) || bytes >= block_bytes_max + 16) return std::free(block);
    const size_t place = (bytes - 8) / 16 - 1;
    if (kept_bytes_ + bytes_at(place) > kept_bytes_max_) return std::free(block);
    kept_bytes_ += bytes_at(place);
    free_[place] = new (block) Free{free_[place]};
#ifdef SLUICE_ADDRESS_SANITIZER
    // Not the link: the search for leaks does not read what is poisoned.
    ASAN_POISON_MEMORY_REGION(free_[place] + 1, bytes_at(place) - sizeof(Free));
#endif
  }
  // Null: the block is as it was.
  static void* resize(void* block, size_t bytes) noexcept {
    return std::realloc(block, bytes);
  }

  // What a block holds, at least as much as was asked for; 0 of null.
  static size_t size_of(void* block) noexcept {
    return malloc_usable_size(block);
  }
  size_t kept_bytes() const noexcept {
    return kept_bytes_;
  }

 private:
  struct Free {
    Free* next;
  };

  static constexpr size_t bytes_at(size_t place) noexcept {
    return 16 * (place + 1) + 8;
  }
  static void* pop(Free*& list) noexcept {
    Free* const block = list;
#ifdef SLUICE_ADDRESS_SANITIZER
    ASAN_UNPOISON_MEMORY_REGION(block, malloc_usable_size(block));
#endif
    list = block->next;
    return block;
  }

  static constexpr size_t places_count = (block_bytes_max - 8) / 16;

  const size_t kept_bytes_max_;
  size_t kept_bytes_ = 0;
  std::array<Free*, places_count> free_{};
};

}  // namespace sluice::base
