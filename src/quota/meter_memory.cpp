#include "quota/meter_memory.hpp"

#include "base/limits.hpp"

namespace sluice::quota {
namespace {

// Words of one quota at most.
constexpr size_t heads_max = limits::quota_limits_max * size_t{limiter::head_words_max};
constexpr size_t rings_max = limits::quota_limits_max * 2 * size_t{limiter::rolling_day_places};

uint64_t* take_words(SlabArena& memory, uint32_t count) noexcept {
  return reinterpret_cast<uint64_t*>(memory.take(count * sizeof(uint64_t)));
}

void free_words(SlabArena& memory, uint64_t* words, uint32_t count) noexcept {
  memory.free(reinterpret_cast<std::byte*>(words), count * sizeof(uint64_t));
}

}  // namespace

MeterMemory::MeterMemory(uint32_t subjects_max)
    : heads_(subjects_max + 1, heads_max * sizeof(uint64_t), "usage of subjects (--max-subjects)"),
      rings_(subjects_max + 1, rings_max * sizeof(uint64_t), "usage of subjects (--max-subjects)"),
      scratch_(limits::call_subjects_max * (heads_max + rings_max)) {
  heads_.advise_huge();
  rings_.advise_huge();
}

limiter::Words MeterMemory::take(const CompiledQuota& quota) noexcept {
  return {.heads = take_words(heads_, quota.head_words),
          .rings = take_words(rings_, quota.ring_words)};
}

void MeterMemory::free(const CompiledQuota& quota, const limiter::Words& words) noexcept {
  free_words(heads_, words.heads, quota.head_words);
  free_words(rings_, words.rings, quota.ring_words);
}

limiter::Words MeterMemory::scratch(uint8_t place) noexcept {
  uint64_t* const words = scratch_.data() + place * (heads_max + rings_max);
  return {.heads = words, .rings = words + heads_max};
}

void MeterMemory::check_invariants() const noexcept {
  heads_.check_invariants();
  rings_.check_invariants();
}

}  // namespace sluice::quota
