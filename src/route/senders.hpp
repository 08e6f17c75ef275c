// Which shards have put something into a shard's mailboxes that it has not taken yet, so that an
// idle turn costs the same with two shards as with many.
// Flow:   a sender pushes into a ring, then add()s itself; the receiver take()s a word of bits, and
//         reads the rings of these shards.
// Shape:  a bit for each shard. Every operation on the bits, the rings' tails and the doorbell is
//         sequentially consistent: a sender that finds its bit set has pushed before the receiver
//         takes the bit, so the receiver sees what was pushed.
// Lives:  add() belongs to the senders' threads, the rest to the receiver's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "api/entry.hpp"
#include "base/assert.hpp"

namespace sluice::route {

class Senders {
 public:
  static constexpr uint32_t shards_max = 256;
  static constexpr size_t words_count = shards_max / 64;
  using Bits = std::array<uint64_t, words_count>;

  void add(api::ShardId shard) noexcept {
    DEBUG_ASSERT(shard < shards_max);
    std::atomic<uint64_t>& word = words_[shard / 64];
    const uint64_t bit = uint64_t{1} << shard % 64;
    if ((word.load() & bit) == 0) word.fetch_or(bit);
  }

  bool empty() const noexcept {
    for (const auto& word : words_) {
      if (word.load() != 0) return false;
    }
    return true;
  }

  // Moves the bits to `taken`.
  void take(Bits& taken) noexcept {
    for (size_t at = 0; at < words_count; ++at) {
      if (words_[at].load() != 0) taken[at] |= words_[at].exchange(0);
    }
  }

 private:
  alignas(64) std::array<std::atomic<uint64_t>, words_count> words_{};
};

}  // namespace sluice::route
