// The most frequent keys of a stream, in bounded memory: weighted Space-Saving.
// Flow:   add() per sample -> counters(), in no order.
// Shape:  a counter for each of counters_max keys, a heap of them with the smallest count on top,
//         and an open-addressed index by hash. A key without a counter takes over the one with the
//         smallest count, and that count: so counts are too high, never too low. Weights since then
//         are also kept by outcome.
// Units:  weights; `total` is the sum of all that were added, halvings included.
// Errors: none. Of any key, with `smallest` the smallest count once all counters are taken,
//         else 0:
//           seen() <= true weight <= count <= true weight + total / counters_max + 1
//           without a counter: true weight <= smallest <= total / counters_max
//         halve() keeps all of it, for true weights that are halved and rounded down as well. A key
//         with more than 1/512 of the traffic always has a counter.
// Lives:  one thread only; nothing is allocated after construction. A key's text is cut.
// Source: Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in
//         Data Streams, 2005.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shard/key_hash.hpp"

namespace sluice::shard {

class HeavyHitters {
 public:
  static constexpr uint32_t counters_max = 512;
  static constexpr uint32_t text_bytes_max = 256;  // of a key

  enum class Outcome : uint8_t { approved, denied, queued };

  struct Counter {
    KeyHash hash{};
    uint64_t count = 0;
    std::array<uint64_t, 3> outcomes{};  // since the key has the counter
    uint32_t key_bytes = 0;              // whole
    uint32_t heap_place = 0;

    uint64_t seen() const noexcept { return outcomes[0] + outcomes[1] + outcomes[2]; }
  };

  HeavyHitters();

  void add(const KeyHash& hash, std::string_view key, Outcome outcome, uint64_t weight) noexcept;

  // Halves every weight so far, so that later ones count twice as much.
  void halve() noexcept;

  std::span<const Counter> counters() const noexcept { return std::span(counters_).first(used_); }
  // The first text_bytes_max bytes of its key.
  std::string_view text(const Counter& counter) const noexcept;
  uint64_t reserved_bytes() const noexcept;
  void check_invariants() const noexcept;

 private:
  using Index = uint16_t;
  static constexpr Index none = 0xFFFF;
  static constexpr uint32_t slots_count = 2 * counters_max;

  static uint32_t home(const KeyHash& hash) noexcept { return hash.tag % slots_count; }
  static uint32_t next(uint32_t slot) noexcept { return (slot + 1) % slots_count; }
  uint32_t slot_of(const KeyHash& hash) const noexcept;
  Index take_over(const KeyHash& hash, std::string_view key) noexcept;
  void remove(uint32_t slot) noexcept;
  void sift_down(uint32_t place) noexcept;
  void sift_up(uint32_t place) noexcept;
  void swap_places(uint32_t a, uint32_t b) noexcept;
  uint64_t count_at(uint32_t place) const noexcept { return counters_[heap_[place]].count; }

  std::vector<Counter> counters_;
  std::vector<char> texts_;
  std::vector<Index> heap_;   // counters; none has a smaller count than its parent
  std::vector<Index> slots_;  // counters by hash, linear probing
  uint32_t used_ = 0;
  uint64_t total_ = 0;
};

}  // namespace sluice::shard
