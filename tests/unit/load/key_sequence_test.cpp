// Goal: the load asks what its flags say. Method: whole sequences are counted.
#include "load/key_sequence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "proto/key_hash.hpp"

namespace sluice::load {
namespace {

uint64_t count_distinct(std::span<const PlannedEntry> planned, uint32_t keys_count) {
  std::vector<bool> seen(keys_count);
  for (const PlannedEntry entry : planned) seen[entry.key] = true;
  return static_cast<uint64_t>(std::ranges::count(seen, true));
}

std::string key_name(uint32_t key, size_t bytes) {
  std::string name(bytes, '\0');
  write_key(key, name);
  return name;
}

TEST(KeySequence, uniform_sends_every_key_once_before_one_comes_again) {
  const auto planned = key_sequence({.keys = 1'000}, 2'500);
  ASSERT_EQ(planned.size(), 3'000u);
  for (size_t begin = 0; begin + 1'000 <= planned.size(); begin += 137) {
    const auto round = std::span{planned}.subspan(begin, 1'000);
    EXPECT_EQ(count_distinct(round, 1'000), 1'000u) << "from " << begin;
  }
}

TEST(KeySequence, uniform_is_in_random_order) {
  const auto planned = key_sequence({.keys = 1'000}, 1);
  size_t neighbours = 0;
  for (size_t i = 1; i < planned.size(); ++i) {
    neighbours += planned[i].key == planned[i - 1].key + 1 ? 1 : 0;
  }
  EXPECT_LT(neighbours, 20u);
}

TEST(KeySequence, zipf_prefers_few_keys) {
  const auto planned = key_sequence({.keys = 1'000, .distribution = Distribution::zipf}, 1);
  std::vector<size_t> counts(1'000);
  for (const PlannedEntry entry : planned) ++counts[entry.key];
  std::sort(counts.rbegin(), counts.rend());
  const auto of_all = static_cast<double>(counts[0]) / static_cast<double>(planned.size());
  EXPECT_NEAR(of_all, 0.131, 0.01);  // 1 / sum of k^-0.99 up to 1,000
  EXPECT_NEAR(static_cast<double>(counts[0]) / static_cast<double>(counts[9]), 9.8, 1.0);
}

Options new_keys_in_100_000() {
  return {.keys = 1'000, .new_keys = 500, .rate = 50'000, .seconds = 1.5, .warm_up_seconds = 0.5};
}

TEST(KeySequence, new_keys_come_once_and_evenly_over_the_run) {
  const auto planned = key_sequence(new_keys_in_100_000(), 1);
  ASSERT_EQ(planned.size(), 100'000U);
  EXPECT_EQ(count_distinct(planned, 1'500), 1'500U);
  uint32_t next = 1'000;
  for (size_t i = 0; i < planned.size(); ++i) {
    if (planned[i].key < 1'000) continue;
    EXPECT_EQ(planned[i].key, next++);
    const auto share = static_cast<double>(i) / static_cast<double>(planned.size());
    EXPECT_NEAR(share, (next - 1'000) / 500.0, 0.01);
  }
  EXPECT_EQ(next, 1'500U);
}

TEST(KeySequence, new_keys_need_a_rate_that_leaves_room_for_others) {
  Options options = new_keys_in_100_000();
  EXPECT_NO_THROW(check_new_keys(options));
  options.new_keys = 200'000;
  EXPECT_THROW(check_new_keys(options), std::invalid_argument);
  options = new_keys_in_100_000();
  options.rate = 0;
  EXPECT_THROW(check_new_keys(options), std::invalid_argument);
  options.new_keys = 0;
  EXPECT_NO_THROW(check_new_keys(options));
}

TEST(KeySequence, one_asks_for_a_single_key) {
  const auto planned = key_sequence({.distribution = Distribution::one}, 500);
  ASSERT_EQ(planned.size(), 500u);
  EXPECT_EQ(count_distinct(planned, 1), 1u);
}

TEST(KeySequence, denied_share_is_met_exactly) {
  for (const double share : {0.01, 0.333, 0.5, 1.0}) {
    const auto planned = key_sequence({.keys = 10'000, .denied_share = share}, 1);
    const auto denied = std::ranges::count_if(planned, &PlannedEntry::denied);
    EXPECT_NEAR(static_cast<double>(denied), share * 10'000, 1) << share;
  }
}

TEST(KeySequence, with_many_keys_a_key_is_denied_always_or_never) {
  for (const Distribution distribution : {Distribution::uniform, Distribution::zipf}) {
    const Options options{.keys = 1'000, .distribution = distribution, .denied_share = 0.3};
    ASSERT_TRUE(denied_by_key(options));
    const auto planned = key_sequence(options, 5'000);
    std::vector<int> denied(options.keys, -1);
    for (const PlannedEntry entry : planned) {
      if (denied[entry.key] < 0) denied[entry.key] = entry.denied ? 1 : 0;
      ASSERT_EQ(denied[entry.key], entry.denied ? 1 : 0);
    }
    const auto met = static_cast<double>(std::ranges::count_if(planned, &PlannedEntry::denied));
    EXPECT_NEAR(met / static_cast<double>(planned.size()), 0.3, 0.001);
  }
}

TEST(KeySequence, few_keys_are_denied_by_cost) {
  EXPECT_TRUE(denied_by_cost({.keys = 100, .denied_share = 0.3}));
  EXPECT_TRUE(denied_by_cost({.distribution = Distribution::one, .denied_share = 0.3}));
  EXPECT_FALSE(denied_by_cost({.keys = 101, .denied_share = 0.3}));
  EXPECT_FALSE(denied_by_cost({.keys = 100}));
  EXPECT_FALSE(denied_by_key({.keys = 1'000}));
  const auto planned = key_sequence({.keys = 3, .denied_share = 0.5}, 999);
  EXPECT_NEAR(static_cast<double>(std::ranges::count_if(planned, &PlannedEntry::denied)), 500, 1);
}

// Ten bytes a key, four shards.
constexpr Routing routing{.seed = 99, .shards = 4};

uint32_t owner(uint32_t key) {
  return proto::owner_shard(proto::routing_hash(key_name(key, 10), routing.seed), routing.shards);
}

TEST(RoutedSequences, hold_every_key_once_and_with_its_owner) {
  const auto parts = routed_sequences({.keys = 1'000, .key_bytes = 10}, 1, routing);
  ASSERT_EQ(parts.size(), 4u);
  std::multiset<uint32_t> keys;
  for (uint32_t shard = 0; shard < parts.size(); ++shard) {
    EXPECT_GT(parts[shard].size(), 150u) << "the hash spreads evenly";
    for (const PlannedEntry entry : parts[shard]) {
      EXPECT_EQ(owner(entry.key), shard);
      keys.insert(entry.key);
    }
  }
  ASSERT_EQ(keys.size(), 1'000u);
  for (uint32_t key = 0; key < 1'000; ++key) EXPECT_EQ(keys.count(key), 1u) << key;
}

TEST(RoutedSequences, repeat_the_part_of_a_shard_as_a_whole) {
  for (const auto& part : routed_sequences({.keys = 100, .key_bytes = 10}, 1'000, routing)) {
    ASSERT_GE(part.size(), 1'000u);
    const uint64_t once = count_distinct(part, 100);
    ASSERT_EQ(part.size() % once, 0u);
    for (size_t begin = 0; begin + once <= part.size(); begin += 7) {
      EXPECT_EQ(count_distinct(std::span{part}.subspan(begin, once), 100), once);
    }
  }
}

TEST(RoutedSequences, are_empty_for_a_shard_without_keys) {
  const auto parts = routed_sequences(
      {.keys = 1, .key_bytes = 10, .distribution = Distribution::one}, 500, routing);
  for (uint32_t shard = 0; shard < parts.size(); ++shard) {
    EXPECT_EQ(parts[shard].size(), shard == owner(0) ? 500u : 0u);
  }
}

TEST(RoutedSequences, ask_what_one_sequence_asks) {
  const Options options{.keys = 1'000, .key_bytes = 10, .distribution = Distribution::zipf};
  std::vector<std::vector<uint32_t>> expected(routing.shards);
  for (const PlannedEntry entry : key_sequence(options, 1)) {
    expected[owner(entry.key)].push_back(entry.key);
  }
  const auto parts = routed_sequences(options, 1, routing);
  for (uint32_t shard = 0; shard < routing.shards; ++shard) {
    ASSERT_EQ(parts[shard].size(), expected[shard].size());
    EXPECT_TRUE(std::ranges::equal(parts[shard], expected[shard], {}, &PlannedEntry::key));
  }
}

TEST(RoutedSequences, meet_the_denied_share_in_every_part) {
  const Options options{.keys = 10'000, .key_bytes = 10, .denied_share = 0.25};
  for (const auto& part : routed_sequences(options, 1, routing)) {
    const auto denied = static_cast<double>(std::ranges::count_if(part, &PlannedEntry::denied));
    EXPECT_NEAR(denied, 0.25 * static_cast<double>(part.size()), 1);
  }
}

TEST(KeySequence, keys_have_the_length_asked_for_and_differ) {
  std::set<std::string> names;
  for (uint32_t key = 0; key < 36 * 36; ++key) names.insert(key_name(key, 2));
  EXPECT_EQ(names.size(), 36u * 36);
  EXPECT_EQ(key_name(0, 4), "---0");
  EXPECT_EQ(key_name(36, 4), "--10");
  EXPECT_EQ(key_name(36 * 36 - 1, 4), "--zz");
  EXPECT_EQ(key_name(36 * 36, 4), "-100");
  EXPECT_EQ(key_name(999'999'999, 15), "---------gjdgxr");
  EXPECT_EQ(key_name(35, 1), "z");
}

TEST(KeySequence, refuses_keys_too_short_to_differ) {
  EXPECT_NO_THROW(require_key_bytes(36 * 36, 2));
  EXPECT_THROW(require_key_bytes(36 * 36 + 1, 2), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::load
