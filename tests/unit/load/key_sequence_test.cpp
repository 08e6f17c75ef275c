// Goal: the load asks what its flags say. Method: whole sequences are counted.
#include "bench/load/key_sequence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

namespace sluice::load {
namespace {

std::string key_name(uint32_t key, size_t bytes) {
  std::string name(bytes, '\0');
  write_key(key, name);
  return name;
}

TEST(KeySequence, uniform_sends_every_key_once_before_one_comes_again) {
  const auto questions = key_sequence({.keys = 1'000}, 2'500);
  ASSERT_EQ(questions.size(), 3'000u);
  for (size_t begin = 0; begin + 1'000 <= questions.size(); begin += 137) {
    const auto round = std::span{questions}.subspan(begin, 1'000);
    EXPECT_EQ(count_distinct(round, 1'000), 1'000u) << "from " << begin;
  }
}

TEST(KeySequence, uniform_is_in_random_order) {
  const auto questions = key_sequence({.keys = 1'000}, 1);
  size_t neighbours = 0;
  for (size_t i = 1; i < questions.size(); ++i) {
    neighbours += questions[i].key == questions[i - 1].key + 1 ? 1 : 0;
  }
  EXPECT_LT(neighbours, 20u);
}

TEST(KeySequence, zipf_prefers_few_keys) {
  const auto questions = key_sequence({.keys = 1'000, .distribution = Distribution::zipf}, 1);
  std::vector<size_t> counts(1'000);
  for (const Question question : questions) ++counts[question.key];
  std::sort(counts.rbegin(), counts.rend());
  const auto of_all = static_cast<double>(counts[0]) / static_cast<double>(questions.size());
  EXPECT_NEAR(of_all, 0.131, 0.01);  // 1 / sum of k^-0.99 up to 1,000
  EXPECT_NEAR(static_cast<double>(counts[0]) / static_cast<double>(counts[9]), 9.8, 1.0);
}

TEST(KeySequence, one_asks_for_a_single_key) {
  const auto questions = key_sequence({.distribution = Distribution::one}, 500);
  ASSERT_EQ(questions.size(), 500u);
  EXPECT_EQ(count_distinct(questions, 1), 1u);
}

TEST(KeySequence, denied_share_is_met_exactly) {
  for (const double share : {0.01, 0.333, 0.5, 1.0}) {
    const auto questions = key_sequence({.keys = 10'000, .denied_share = share}, 1);
    const auto denied = std::ranges::count_if(questions, &Question::denied);
    EXPECT_NEAR(static_cast<double>(denied), share * 10'000, 1) << share;
  }
}

TEST(KeySequence, keys_have_the_length_asked_for_and_differ) {
  std::set<std::string> names;
  for (uint32_t key = 0; key < 36 * 36; ++key) names.insert(key_name(key, 2));
  EXPECT_EQ(names.size(), 36u * 36);
  EXPECT_EQ(key_name(0, 4), "---0");
  EXPECT_EQ(key_name(36, 4), "--10");
}

TEST(KeySequence, refuses_keys_too_short_to_differ) {
  EXPECT_NO_THROW(require_key_bytes(36 * 36, 2));
  EXPECT_THROW(require_key_bytes(36 * 36 + 1, 2), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::load
