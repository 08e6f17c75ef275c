#include "shard/heavy_hitters.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"

namespace sluice::shard {

HeavyHitters::HeavyHitters()
    : counters_(counters_max),
      texts_(size_t{counters_max} * text_bytes_max),
      heap_(counters_max),
      slots_(slots_count, none) {}

void HeavyHitters::add(const KeyHash& hash, std::string_view key, Outcome outcome,
                       uint64_t weight) noexcept {
  const Index known = slots_[slot_of(hash)];
  const Index index = known != none ? known : take_over(hash, key);
  Counter& counter = counters_[index];
  counter.count += weight;
  counter.outcomes[static_cast<size_t>(outcome)] += weight;
  total_ += weight;
  sift_down(counter.heap_place);
}

// A counter for a key that has none: a new one, or the one with the smallest count.
HeavyHitters::Index HeavyHitters::take_over(const KeyHash& hash, std::string_view key) noexcept {
  Index index = none;
  if (used_ < counters_max) {
    index = static_cast<Index>(used_);
    heap_[used_] = index;
    counters_[index] = {.heap_place = used_};
    sift_up(used_++);
  } else {
    index = heap_[0];
    remove(slot_of(counters_[index].hash));
  }
  Counter& counter = counters_[index];
  counter.hash = hash;
  counter.outcomes = {};
  counter.key_bytes = static_cast<uint32_t>(key.size());
  const size_t kept_bytes = std::min<size_t>(key.size(), text_bytes_max);
  std::memcpy(&texts_[size_t{index} * text_bytes_max], key.data(), kept_bytes);
  slots_[slot_of(hash)] = index;
  return index;
}

// Where the hash is, or would go.
uint32_t HeavyHitters::slot_of(const KeyHash& hash) const noexcept {
  uint32_t slot = home(hash);
  while (slots_[slot] != none && !(counters_[slots_[slot]].hash == hash)) slot = next(slot);
  return slot;
}

// Entries behind the gap that may stand in it move there, so that no search ends too early.
void HeavyHitters::remove(uint32_t slot) noexcept {
  uint32_t gap = slot;
  for (uint32_t at = next(slot); slots_[at] != none; at = next(at)) {
    const uint32_t wanted = home(counters_[slots_[at]].hash);
    const uint32_t from_home = (at - wanted) % slots_count;
    const uint32_t from_gap = (at - gap) % slots_count;
    if (from_home < from_gap) continue;
    slots_[gap] = slots_[at];
    gap = at;
  }
  slots_[gap] = none;
}

void HeavyHitters::sift_down(uint32_t place) noexcept {
  for (;;) {
    uint32_t least = 2 * place + 1;
    if (least >= used_) return;
    if (least + 1 < used_ && count_at(least + 1) < count_at(least)) ++least;
    if (count_at(place) <= count_at(least)) return;
    swap_places(place, least);
    place = least;
  }
}

void HeavyHitters::sift_up(uint32_t place) noexcept {
  while (place > 0 && count_at(place) < count_at((place - 1) / 2)) {
    swap_places(place, (place - 1) / 2);
    place = (place - 1) / 2;
  }
}

void HeavyHitters::swap_places(uint32_t a, uint32_t b) noexcept {
  std::swap(heap_[a], heap_[b]);
  counters_[heap_[a]].heap_place = a;
  counters_[heap_[b]].heap_place = b;
}

// The order of the counts stays, and so does the heap.
void HeavyHitters::halve() noexcept {
  for (Counter& counter : std::span(counters_).first(used_)) {
    counter.count /= 2;
    for (uint64_t& outcome : counter.outcomes) outcome /= 2;
  }
  total_ /= 2;
}

std::string_view HeavyHitters::text(const Counter& counter) const noexcept {
  const auto index = static_cast<size_t>(&counter - counters_.data());
  return {&texts_[index * text_bytes_max], std::min(counter.key_bytes, text_bytes_max)};
}

uint64_t HeavyHitters::reserved_bytes() const noexcept {
  return counters_.size() * sizeof(Counter) + texts_.size() +
         (heap_.size() + slots_.size()) * sizeof(Index);
}

void HeavyHitters::check_invariants() const noexcept {
  uint64_t sum = 0;
  for (uint32_t place = 0; place < used_; ++place) {
    const Counter& counter = counters_[heap_[place]];
    ASSERT(counter.heap_place == place);
    ASSERT(place == 0 || count_at((place - 1) / 2) <= counter.count);
    ASSERT(counter.seen() <= counter.count);
    ASSERT(slots_[slot_of(counter.hash)] == heap_[place]);
    sum += counter.count;
  }
  ASSERT(sum <= total_);
  ASSERT(std::ranges::count(slots_, none) == std::ptrdiff_t{slots_count - used_});
}

}  // namespace sluice::shard
