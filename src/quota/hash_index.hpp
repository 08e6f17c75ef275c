// Finds numbers by a hash: open addressing, linear probing, erasing without tombstones.
// Shape:  8 bytes a slot; the upper half of the hash stands beside the number, and gives its home.
//         At most half of the slots are in use.
// Errors: none: the owner never keeps more than `entries_max`.
// Lives:  one thread only; never allocates after construction.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "base/assert.hpp"
#include "base/mapped_region.hpp"
#include "base/prefetch.hpp"

namespace sluice::quota {

class HashIndex {
 public:
  static constexpr uint32_t none = 0xFFFF'FFFF;

  HashIndex(uint32_t entries_max, std::string_view purpose)
      : mask_(std::bit_ceil(uint64_t{entries_max} * 2 + 1) - 1),
        region_((mask_ + 1) * sizeof(Slot), purpose) {
    region_.advise_huge();
  }

  // The number that was inserted with this hash and satisfies `is_match(number)`.
  template <typename IsMatch>
  uint32_t find(uint64_t hash, IsMatch is_match) const noexcept {
    for (uint64_t at = home(tag(hash));; at = (at + 1) & mask_) {
      const Slot& slot = slots()[at];
      if (slot.number_plus_1 == 0) return none;
      if (slot.tag == tag(hash) && is_match(slot.number_plus_1 - 1)) return slot.number_plus_1 - 1;
    }
  }

  // The number that most probably has this hash, for fetching ahead.
  uint32_t first_with(uint64_t hash) const noexcept {
    return find(hash, [](uint32_t) { return true; });
  }

  void insert(uint64_t hash, uint32_t number) noexcept {
    uint64_t at = home(tag(hash));
    while (slots()[at].number_plus_1 != 0) at = (at + 1) & mask_;
    put(at, hash, number);
  }
  // The same, unless a number has this hash already: then false.
  bool insert_first(uint64_t hash, uint32_t number) noexcept {
    uint64_t at = home(tag(hash));
    for (; slots()[at].number_plus_1 != 0; at = (at + 1) & mask_) {
      if (slots()[at].tag == tag(hash)) return false;
    }
    put(at, hash, number);
    return true;
  }

  // Another number takes the place of one that was inserted with this hash.
  void replace(uint64_t hash, uint32_t number, uint32_t by) noexcept {
    slots()[place_of(hash, number)].number_plus_1 = by + 1;
  }

  void erase(uint64_t hash, uint32_t number) noexcept {
    uint64_t hole = place_of(hash, number);
    --used_;
    // Entries behind the hole move up, unless that brings them before their home.
    for (uint64_t at = (hole + 1) & mask_; slots()[at].number_plus_1 != 0; at = (at + 1) & mask_) {
      if (((at - home(slots()[at].tag)) & mask_) < ((at - hole) & mask_)) continue;
      slots()[hole] = slots()[at];
      hole = at;
    }
    slots()[hole] = {};
  }

  SLUICE_PREFETCH_FUNCTION void prefetch(uint64_t hash) const noexcept {
    __builtin_prefetch(&slots()[home(tag(hash))]);
  }

  // The slots from the hash's home on, which may lie in the middle of a cache line.
  SLUICE_PREFETCH_FUNCTION void prefetch(uint64_t hash, uint32_t slots_count) const noexcept {
    const auto* bytes = reinterpret_cast<const std::byte*>(&slots()[home(tag(hash))]);
    for (size_t at = 0; at <= slots_count * sizeof(Slot); at += 64)
      __builtin_prefetch(bytes + at, 1);
  }

  uint64_t reserved_bytes() const noexcept { return region_.size(); }

 private:
  struct Slot {
    uint32_t tag;
    uint32_t number_plus_1;  // 0: free
  };

  static uint32_t tag(uint64_t hash) noexcept { return static_cast<uint32_t>(hash >> 32); }
  uint64_t home(uint32_t tag) const noexcept { return tag & mask_; }
  void put(uint64_t at, uint64_t hash, uint32_t number) noexcept {
    ASSERT(used_ < (mask_ + 1) / 2);
    ++used_;
    slots()[at] = {.tag = tag(hash), .number_plus_1 = number + 1};
  }
  uint64_t place_of(uint64_t hash, uint32_t number) const noexcept {
    uint64_t at = home(tag(hash));
    while (slots()[at].number_plus_1 != number + 1) {
      ASSERT(slots()[at].number_plus_1 != 0);
      at = (at + 1) & mask_;
    }
    return at;
  }
  Slot* slots() const noexcept { return reinterpret_cast<Slot*>(region_.data()); }

  uint64_t mask_;
  base::MappedRegion region_;
  uint64_t used_ = 0;
};

}  // namespace sluice::quota
