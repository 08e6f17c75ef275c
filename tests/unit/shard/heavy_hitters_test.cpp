// Goal:   counts by outcome; the least key is replaced; halving forgets; long keys are cut.
// Method: a few streams of known content; tests/property/heavy_hitters_test.cpp has the bounds.
#include "shard/heavy_hitters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace sluice::shard {
namespace {

using Outcome = HeavyHitters::Outcome;
constexpr uint32_t counters_max = HeavyHitters::counters_max;

void add(HeavyHitters& hitters, const std::string& key, uint64_t weight = 1,
         Outcome outcome = Outcome::approved) {
  hitters.add(hash_key(key, HashSecret{}), key, outcome, weight);
  hitters.check_invariants();
}

const HeavyHitters::Counter* find(const HeavyHitters& hitters, const std::string& key) {
  const auto counters = hitters.counters();
  const auto found =
      std::ranges::find_if(counters, [&](const auto& one) { return hitters.text(one) == key; });
  return found == counters.end() ? nullptr : &*found;
}

TEST(HeavyHitters, few_keys_are_counted_exactly) {
  HeavyHitters hitters;
  add(hitters, "a", 3);
  add(hitters, "a", 4, Outcome::denied);
  add(hitters, "b", 5, Outcome::queued);
  ASSERT_EQ(hitters.counters().size(), 2U);
  EXPECT_EQ(find(hitters, "a")->count, 7U);
  EXPECT_EQ(find(hitters, "a")->outcomes, (std::array<uint64_t, 3>{3, 4, 0}));
  EXPECT_EQ(find(hitters, "b")->outcomes, (std::array<uint64_t, 3>{0, 0, 5}));
}

TEST(HeavyHitters, the_least_key_is_replaced_and_leaves_its_count) {
  HeavyHitters hitters;
  for (uint32_t i = 0; i < counters_max; ++i) add(hitters, std::to_string(i), i == 17 ? 2 : 5);
  add(hitters, "new", 1, Outcome::denied);
  EXPECT_EQ(hitters.counters().size(), counters_max);
  EXPECT_EQ(find(hitters, "17"), nullptr);
  ASSERT_NE(find(hitters, "new"), nullptr);
  EXPECT_EQ(find(hitters, "new")->count, 3U);
  EXPECT_EQ(find(hitters, "new")->seen(), 1U);
}

TEST(HeavyHitters, halving_makes_room_for_later_keys) {
  HeavyHitters hitters;
  for (uint32_t i = 0; i < counters_max; ++i) add(hitters, std::to_string(i), 1'000);
  for (int i = 0; i < 10; ++i) hitters.halve();
  EXPECT_EQ(find(hitters, "7")->count, 0U);
  add(hitters, "new", 4);
  EXPECT_EQ(find(hitters, "new")->count, 4U);
}

TEST(HeavyHitters, a_long_key_is_cut_and_still_itself) {
  HeavyHitters hitters;
  const std::string common(HeavyHitters::text_bytes_max, 'x');
  add(hitters, common + "1", 2);
  add(hitters, common + "2", 3);
  add(hitters, common + "2", 3);
  ASSERT_EQ(hitters.counters().size(), 2U);
  for (const auto& counter : hitters.counters()) {
    EXPECT_EQ(hitters.text(counter), common);
    EXPECT_EQ(counter.key_bytes, common.size() + 1);
  }
}

}  // namespace
}  // namespace sluice::shard
