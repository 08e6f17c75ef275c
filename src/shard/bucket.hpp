// One cache line of the key table: three keys' tags and windows.
// Shape:  words and tails are the keys' cells (key_cell.hpp).
//         overflow: how many keys found this bucket full and lie in a later one. A search ends at a
//                bucket where it is 0, so erasing a key leaves no tombstone.
#pragma once

#include <cstdint>

#include "shard/key_cell.hpp"

namespace sluice::shard {

struct alignas(64) Bucket {
  static constexpr uint32_t slots_count = 3;

  uint64_t tags[slots_count];  // 0: the slot is empty
  uint64_t words[slots_count];
  uint32_t tails[slots_count];
  uint32_t overflow;

  // A bit per slot that holds `tag`. Without branches: which slot matches is unpredictable.
  uint32_t match(uint64_t tag) const noexcept {
    uint32_t found = static_cast<uint32_t>(tags[0] == tag) |
                     static_cast<uint32_t>(tags[1] == tag) << 1 |
                     static_cast<uint32_t>(tags[2] == tag) << 2;
    asm("" : "+r"(found));  // else g++ 12 makes three branches of it
    return found;
  }

  // The first slot of a match; slots_count when there is none.
  static uint32_t slot_of(uint32_t found) noexcept {
    return static_cast<uint32_t>(__builtin_ctz(found | 1U << slots_count));
  }

  KeyCell cell(uint32_t slot) noexcept { return {words[slot], tails[slot]}; }
};
static_assert(sizeof(Bucket) == 64);

// Where a key lives; until the table's next insert or erase.
struct Place {
  Bucket* bucket = nullptr;
  uint32_t slot = 0;
  explicit operator bool() const noexcept { return bucket != nullptr; }
  bool operator==(const Place&) const = default;
};

}  // namespace sluice::shard
