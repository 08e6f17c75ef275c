// The words of all subjects' meters, in two arenas: one for what every call reads, one for the
// rings.
// Errors: the constructor throws as MappedRegion does. There is room for every subject's largest
//         quota, and for one more, since a subject takes the words of its next quota before it
//         frees those of the last one.
// Lives:  one thread only; pages are committed as words come into use.
#pragma once

#include <cstdint>
#include <vector>

#include "limiter/meter_shape.hpp"
#include "quota/compiled_quota.hpp"
#include "quota/slab_arena.hpp"

namespace sluice::quota {

class MeterMemory {
 public:
  explicit MeterMemory(uint32_t subjects_max);

  // As many words as the quota's meters need; they are not cleared.
  limiter::Words take(const CompiledQuota& quota) noexcept;
  void free(const CompiledQuota& quota, const limiter::Words& words) noexcept;

  // Words for a subject without state, by its place in a call; until the next call.
  limiter::Words scratch(uint8_t place) noexcept;

  uint64_t reserved_bytes() const noexcept {
    return heads_.reserved_bytes() + rings_.reserved_bytes();
  }
  void check_invariants() const noexcept;

 private:
  SlabArena heads_;
  SlabArena rings_;
  std::vector<uint64_t> scratch_;
};

}  // namespace sluice::quota
