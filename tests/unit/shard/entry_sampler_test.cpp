// Goal:   every entry while there are few, a bounded number of samples when there are many, and the
//         weights add up to the number of entries, also where clients ask in a pattern.
// Method: batches of known size on a clock of our own.
#include "shard/entry_sampler.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace sluice::shard {
namespace {

constexpr uint64_t seed = 4'711;

std::vector<uint64_t> weights_of(EntrySampler& sampler, size_t count, int64_t now_ms) {
  std::vector<uint64_t> weights;
  sampler.sample(count, now_ms, [&](size_t at, uint64_t weight) {
    EXPECT_LT(at, count);
    weights.push_back(weight);
  });
  return weights;
}

TEST(EntrySampler, takes_every_entry_while_there_are_few) {
  EntrySampler sampler(seed);
  for (int64_t now_ms = 0; now_ms < 10'000; now_ms += 10) {
    std::vector<size_t> taken;
    sampler.sample(7, now_ms, [&](size_t at, uint64_t weight) {
      taken.push_back(at);
      EXPECT_EQ(weight, 1U);
    });
    ASSERT_EQ(taken, (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6}));
  }
}

TEST(EntrySampler, takes_a_bounded_number_however_many_there_are) {
  EntrySampler sampler(seed);
  for (int64_t tick = 0; tick < 100; ++tick) {
    uint64_t samples = 0;
    for (int batch = 0; batch < 100; ++batch) {
      samples += weights_of(sampler, 16'384, tick * EntrySampler::tick_ms).size();
    }
    // The first tick finds the stride; later ones have it.
    EXPECT_LE(samples, EntrySampler::tick_samples * (tick == 0 ? 13 : 2)) << "tick " << tick;
    EXPECT_GE(samples, EntrySampler::tick_samples / 4) << "tick " << tick;
  }
}

TEST(EntrySampler, weights_add_up_to_the_entries) {
  EntrySampler sampler(seed);
  uint64_t asked = 0;
  uint64_t weighed = 0;
  for (int64_t now_ms = 0; now_ms < 20'000; ++now_ms) {
    const size_t count = now_ms % 2'000 < 1'000 ? 5'000 : 50;  // busy and quiet seconds
    asked += count;
    sampler.sample(count, now_ms, [&](size_t, uint64_t weight) { weighed += weight; });
  }
  EXPECT_NEAR(static_cast<double>(weighed), static_cast<double>(asked),
              0.03 * static_cast<double>(asked));
}

// A client that asks for 64 keys in turn, in frames of 64: a fixed stride would see one of them.
TEST(EntrySampler, a_pattern_does_not_hide_keys) {
  EntrySampler sampler(seed);
  std::array<uint64_t, 64> weights{};
  uint64_t sum = 0;
  uint64_t last_weight = 0;
  for (int64_t frame = 0; frame < 200'000; ++frame) {
    sampler.sample(64, frame / 100, [&](size_t at, uint64_t weight) {
      weights[at] += weight;
      sum += weight;
      last_weight = weight;
    });
  }
  ASSERT_GT(last_weight, 8U);
  for (const uint64_t weight : weights) {
    EXPECT_NEAR(static_cast<double>(weight), static_cast<double>(sum) / 64,
                0.5 * static_cast<double>(sum) / 64);
  }
}

TEST(EntrySampler, samples_at_once_after_a_busy_time) {
  EntrySampler sampler(seed);
  uint64_t last_weight = 0;
  for (int batch = 0; batch < 1'000; ++batch) {
    for (const uint64_t weight : weights_of(sampler, 16'384, 0)) last_weight = weight;
  }
  ASSERT_GT(last_weight, 1'000U);
  EXPECT_EQ(weights_of(sampler, 3, 60'000), (std::vector<uint64_t>{1, 1, 1}));
}

}  // namespace
}  // namespace sluice::shard
