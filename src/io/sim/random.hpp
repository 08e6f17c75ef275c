// Seeded randomness for simulations: the same seed gives the same run, on every machine.
// Lives:  one per run, passed by reference to everything that draws.
// Source: SplitMix64 (base/splitmix.hpp); the bound by multiplication is Lemire's, without its
//         rejection.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "base/splitmix.hpp"

namespace sluice::io {

class Random {
 public:
  explicit Random(uint64_t seed) noexcept : state_(seed) {}
  Random(const Random&) = delete;
  Random& operator=(const Random&) = delete;

  // The same as a new one.
  void reseed(uint64_t seed) noexcept { state_ = seed; }

  uint64_t next() noexcept { return base::splitmix64(state_ += base::splitmix64_step); }

  // 0 to bound - 1.
  uint64_t below(uint64_t bound) noexcept {
    ASSERT(bound > 0);
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((Wide{next()} * bound) >> 64);
  }

  // Both ends included.
  int64_t between(int64_t least, int64_t most) noexcept {
    ASSERT(least <= most);
    return least + static_cast<int64_t>(below(static_cast<uint64_t>(most - least) + 1));
  }

  bool chance(double probability) noexcept {
    return static_cast<double>(next() >> 11) * 0x1p-53 < probability;
  }

 private:
  uint64_t state_;
};

}  // namespace sluice::io
