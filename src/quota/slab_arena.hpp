// Memory in blocks of many sizes. As many as were promised always find room, in whatever order and
// sizes blocks are taken and freed.
// Shape:  one reserved region of slabs, each as large as the largest block. A slab in use is cut
//         into blocks of one size, and is free for any size again after the last of them was freed:
//         so each block that is held keeps at most one slab, and one slab a block is enough. Slabs
//         that have free blocks of a size are used up before a fresh one is cut.
// Units:  bytes; a block is whole cache lines and begins at one.
// Errors: the constructor throws as MappedRegion does. Holding more blocks than were promised
//         aborts.
// Lives:  one thread only; pages are committed as slabs come into use.
// Source: slab allocator, Bonwick, USENIX Summer 1994.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/assert.hpp"
#include "base/mapped_array.hpp"
#include "base/mapped_region.hpp"

namespace sluice::quota {

class SlabArena {
 public:
  SlabArena(uint32_t blocks_max, size_t block_bytes_max, std::string_view purpose)
      : slab_bytes_(lines(block_bytes_max) * line_bytes),
        region_(blocks_max * slab_bytes_, purpose),
        slabs_(blocks_max, purpose),
        open_(lines(block_bytes_max) + 1, none) {}

  // The block is not cleared. Null for no bytes.
  std::byte* take(size_t bytes) noexcept {
    ASSERT(bytes <= slab_bytes_);
    if (bytes == 0) return nullptr;
    const size_t size = lines(bytes);
    if (open_[size] == none) open(fresh_slab(size));
    const Number number = open_[size];
    Slab& slab = slabs_[number];
    std::byte* block = slab.free;
    if (block != nullptr) {
      std::memcpy(&slab.free, block, sizeof slab.free);
    } else {
      block = begin_of(number) + size_t{slab.cut++} * size * line_bytes;
    }
    if (++slab.held == blocks_of(slab)) close(number);
    return block;
  }

  // With as many bytes as the block was taken with.
  void free(std::byte* block, size_t bytes) noexcept {
    if (block == nullptr) return;
    const auto offset = static_cast<size_t>(block - region_.data());
    const auto number = static_cast<Number>(offset / slab_bytes_);
    Slab& slab = slabs_[number];
    ASSERT(slab.held > 0 && slab.size == lines(bytes));
    ASSERT(offset % slab_bytes_ % (slab.size * line_bytes) == 0);
    if (slab.held == blocks_of(slab)) open(number);
    std::memcpy(block, &slab.free, sizeof slab.free);
    slab.free = block;
    if (--slab.held > 0) return;
    close(number);
    slab = {.next = free_};
    free_ = number;
  }

  // A block by number, in half of a pointer's size: the cache line where it begins.
  uint32_t line_of(const std::byte* block) const noexcept {
    return static_cast<uint32_t>(static_cast<size_t>(block - region_.data()) / line_bytes);
  }
  std::byte* at_line(uint32_t line) const noexcept {
    return region_.data() + size_t{line} * line_bytes;
  }

  // Aborts when blocks are lost: each slab lies in the list where it belongs.
  void check_invariants() const noexcept {
    std::vector<bool> listed(fresh_);
    for (Number number = free_; number != none; number = slabs_[number].next) {
      ASSERT(!listed[number] && slabs_[number].held == 0 && slabs_[number].size == 0);
      listed[number] = true;
    }
    for (size_t size = 1; size < open_.size(); ++size) {
      for (Number number = open_[size]; number != none; number = slabs_[number].next) {
        const Slab& slab = slabs_[number];
        ASSERT(!listed[number] && slab.size == size && slab.held < blocks_of(slab));
        ASSERT(slab.held > 0 && slab.held + free_blocks(slab) == slab.cut);
        listed[number] = true;
      }
    }
    for (Number number = 0; number < fresh_; ++number) {
      ASSERT(listed[number] || slabs_[number].held == blocks_of(slabs_[number]));
    }
  }

  // For blocks that are read at random.
  void advise_huge() noexcept { region_.advise_huge(); }
  uint64_t reserved_bytes() const noexcept { return region_.size() + slabs_.reserved_bytes(); }

 private:
  using Number = uint32_t;
  static constexpr Number none = 0xFFFF'FFFF;
  static constexpr size_t line_bytes = 64;

  struct Slab {
    std::byte* free = nullptr;  // freed blocks, each beginning with the next
    Number next = none;         // in the list of its size, or of free slabs
    Number before = none;
    uint32_t size = 0;  // of its blocks, in lines; 0: it is free
    uint32_t cut = 0;   // blocks that were taken at least once
    uint32_t held = 0;  // blocks that are taken now
  };

  static size_t lines(size_t bytes) noexcept { return (bytes + line_bytes - 1) / line_bytes; }
  std::byte* begin_of(Number number) const noexcept {
    return region_.data() + number * slab_bytes_;
  }
  uint32_t blocks_of(const Slab& slab) const noexcept {
    return static_cast<uint32_t>(slab_bytes_ / line_bytes / slab.size);
  }
  static uint32_t free_blocks(const Slab& slab) noexcept {
    uint32_t count = 0;
    for (const std::byte* block = slab.free; block != nullptr; ++count) {
      std::memcpy(&block, static_cast<const void*>(block), sizeof block);
    }
    return count;
  }

  Number fresh_slab(size_t size) noexcept {
    Number number = free_;
    if (number != none) {
      free_ = slabs_[number].next;
    } else {
      ASSERT(fresh_ < slabs_.size());
      number = fresh_++;
    }
    slabs_[number] = {.size = static_cast<uint32_t>(size)};
    return number;
  }

  // The slab has free blocks from now on.
  void open(Number number) noexcept {
    Slab& slab = slabs_[number];
    Number& first = open_[slab.size];
    slab.before = none;
    slab.next = first;
    if (slab.next != none) slabs_[slab.next].before = number;
    first = number;
  }
  // The slab has no free blocks any more, or is about to be free.
  void close(Number number) noexcept {
    const Slab& slab = slabs_[number];
    if (slab.next != none) slabs_[slab.next].before = slab.before;
    (slab.before != none ? slabs_[slab.before].next : open_[slab.size]) = slab.next;
  }

  size_t slab_bytes_;
  base::MappedRegion region_;
  base::MappedArray<Slab> slabs_;
  std::vector<Number> open_;  // by size in lines: the first slab that has free blocks of it
  Number free_ = none;        // freed slabs
  Number fresh_ = 0;          // never used from here on
};

}  // namespace sluice::quota
