// The bounds of heavy_hitters.hpp hold at every moment of any stream: no count is too low, none too
// high by more than its part, and no key above that part is missing.
// Method: an exact count of every key, halved along; random streams of uniform, skewed and moving
// keys; SEED=n repeats a run.
#include "shard/heavy_hitters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "property/seeds.hpp"

namespace sluice::shard {
namespace {

constexpr uint64_t counters_max = HeavyHitters::counters_max;

class Comparison {
 public:
  explicit Comparison(uint64_t seed)
      : dice_(seed), keys_count_(1 + dice_.below(4'000)), weight_max_(1 + dice_.below(100)) {}

  void run(int steps_count) {
    for (int step = 0; step < steps_count && !testing::Test::HasFailure(); ++step) {
      if (dice_.below(5'000) == 0) halve();
      add(draw_key(step));
      if (step % 997 == 0) compare();
    }
    compare();
  }

 private:
  // Of few keys, of many, and of a window that moves on.
  std::string draw_key(int step) {
    const uint64_t kind = dice_.below(4);
    if (kind == 0) return "hot" + std::to_string(dice_.below(1 + dice_.below(20)));
    if (kind == 1) return "moving" + std::to_string(step / 50 + dice_.below(20));
    return "any" + std::to_string(dice_.below(keys_count_));
  }

  void add(const std::string& key) {
    const uint64_t weight = 1 + dice_.below(weight_max_);
    const auto outcome = static_cast<HeavyHitters::Outcome>(dice_.below(3));
    hitters_.add(hash_key(key, HashSecret{}), key, outcome, weight);
    truth_[key] += weight;
    total_ += weight;
  }

  void halve() {
    hitters_.halve();
    for (auto& [key, weight] : truth_) weight /= 2;
    total_ /= 2;
  }

  void compare() {
    hitters_.check_invariants();
    auto missing = truth_;
    uint64_t sum = 0;
    uint64_t least = UINT64_MAX;
    for (const HeavyHitters::Counter& counter : hitters_.counters()) {
      const std::string key{hitters_.text(counter)};
      ASSERT_LE(counter.seen(), truth_[key]) << key;
      ASSERT_GE(counter.count, truth_[key]) << key;
      ASSERT_LE(counter.count, truth_[key] + total_ / counters_max + 1) << key;
      ASSERT_EQ(missing.erase(key), 1U) << key << " twice, or never added";
      least = std::min(least, counter.count);
      sum += counter.count;
    }
    ASSERT_LE(sum, total_);
    if (hitters_.counters().size() < counters_max) {
      ASSERT_TRUE(missing.empty());
      return;
    }
    ASSERT_LE(least, total_ / counters_max);
    for (const auto& [key, weight] : missing) ASSERT_LE(weight, least) << key;
  }

  Dice dice_;
  uint64_t keys_count_;
  uint64_t weight_max_;
  HeavyHitters hitters_;
  std::unordered_map<std::string, uint64_t> truth_;
  uint64_t total_ = 0;
};

TEST(HeavyHittersProperty, the_bounds_hold_in_any_stream) {
  for (const uint64_t seed : property_seeds(20)) {
    SCOPED_TRACE("repeat with SEED=" + std::to_string(seed));
    Comparison(seed).run(30'000);
  }
}

}  // namespace
}  // namespace sluice::shard
