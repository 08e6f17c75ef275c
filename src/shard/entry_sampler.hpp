// Picks the decided entries that are sampled: few enough to cost next to nothing, and each with the
// same chance, whatever pattern the clients ask in.
// Flow:   a batch was decided -> sample() -> the entries that are due, each with its weight.
// Shape:  the gap to the next sample is drawn evenly from 1 to 2 * stride - 1, so that one of
//         `stride` entries is taken; it stands for that many. The stride doubles whenever a tick
//         has had its samples, and halves with a tick that took less than half of them: a shard
//         takes every entry while it decides few, and no more than about 5,000 a second ever.
//         Batches without a sample cost two comparisons and a subtraction.
// Units:  entries; milliseconds.
// Lives:  one thread only; the seed is secret, so that no client can ask between the samples.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/splitmix.hpp"

namespace sluice::shard {

class EntrySampler {
 public:
  static constexpr int64_t tick_ms = 50;
  static constexpr uint32_t tick_samples = 256;
  static constexpr uint32_t stride_max = 1U << 20;

  explicit EntrySampler(uint64_t seed) noexcept : random_(seed) {}

  // Calls `observe(at, weight)` for those of `count` entries in a row that are due.
  template <typename Observe>
  void sample(size_t count, int64_t now_ms, Observe observe) noexcept {
    if (now_ms >= tick_end_ms_) [[unlikely]]
      end_tick(now_ms);
    size_t at = gap_;
    while (at < count) {
      observe(at, uint64_t{weight_});
      count_sample();
      at += 1 + draw_gap();
    }
    gap_ = at - count;
  }

 private:
  void count_sample() noexcept {
    if (++taken_ < tick_samples || stride_ == stride_max) return;
    stride_ *= 2;
    taken_ = 0;
    doubled_ = true;
  }

  // Ticks without entries took no samples.
  void end_tick(int64_t now_ms) noexcept {
    const int64_t idle_ticks = (now_ms - tick_end_ms_) / tick_ms;
    const int64_t halvings = idle_ticks + (!doubled_ && taken_ < tick_samples / 2 ? 1 : 0);
    stride_ = std::max(stride_ >> std::min<int64_t>(halvings, 31), 1U);
    if (weight_ > stride_) {  // a gap that was drawn in busier times is too long
      gap_ = std::min<size_t>(gap_, 2 * stride_ - 2);
      weight_ = stride_;
    }
    taken_ = 0;
    doubled_ = false;
    tick_end_ms_ = now_ms + tick_ms;
  }

  // How many entries are skipped before the next sample.
  size_t draw_gap() noexcept {
    weight_ = stride_;
    const uint64_t drawn = base::splitmix64(random_ += base::splitmix64_step);
    return ((drawn >> 32) * (2 * uint64_t{stride_} - 1)) >> 32;
  }

  uint64_t random_;
  size_t gap_ = 0;
  uint32_t stride_ = 1;
  uint32_t weight_ = 1;  // of the next sample: the stride when its gap was drawn
  uint32_t taken_ = 0;   // in this tick, or since the stride was doubled in it
  bool doubled_ = false;
  int64_t tick_end_ms_ = 0;
};

}  // namespace sluice::shard
