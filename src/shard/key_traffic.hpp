// The recent traffic of a shard's keys, as `sluicegate top` shows it: the heaviest keys, with their
// rates.
// Flow:   a batch was decided -> sample() -> EntrySampler -> add() -> HeavyHitters -> heaviest().
// Shape:  weights so far are halved every half_life_ms, together with the time they span: a rate is
//         their quotient, right from the first second on, and follows the present.
// Units:  milliseconds; rates per second. Weights are in 1,024ths of an entry, so that those of
//         rare keys fade as slowly as the rest.
// Errors: of HeavyHitters, and of sampling: a key with a part p of the traffic has about 12,000 * p
//         samples at a high rate, so that its rate is wrong by 1 / sqrt(12,000 * p); of 1 %: by 9
//         %.
// Lives:  one thread only.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "api/verdict.hpp"
#include "shard/entry_sampler.hpp"
#include "shard/heavy_hitters.hpp"
#include "shard/key_decider.hpp"
#include "shard/key_hash.hpp"

namespace sluice::shard {

class KeyTraffic {
 public:
  static constexpr int64_t half_life_ms = 2'000;

  explicit KeyTraffic(const HashSecret& secret);

  // Calls `observe(at, weight)` for a few of `count` entries that were decided in a row.
  template <typename Observe>
  void sample(size_t count, int64_t now_ms, Observe observe) noexcept {
    sampler_.sample(count, now_ms, observe);
  }

  void add(const KeyHash& hash, std::string_view key, api::Verdict verdict, uint64_t weight,
           int64_t now_ms) noexcept;

  // The keys with the most entries, most first; until the next call.
  std::span<HeavyKey> heaviest(uint32_t keys_max, int64_t now_ms) noexcept;

  uint64_t reserved_bytes() const noexcept { return hitters_.reserved_bytes(); }
  void check_invariants() const noexcept { hitters_.check_invariants(); }

 private:
  void age(int64_t now_ms) noexcept;

  EntrySampler sampler_;
  HeavyHitters hitters_;
  std::vector<HeavyKey> heaviest_;
  int64_t halved_ms_ = INT64_MIN;  // when it was halved last, or began
  int64_t spanned_ms_ = 0;         // before that
};

}  // namespace sluice::shard
