// After a change of the rules: how many keys plain requests may have matched again in a turn, and
// that all keys follow the new rules soon.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policy/rule_book.hpp"
#include "shard/key_shard.hpp"
#include "shard/match_share.hpp"
#include "unit/shard/shard_driver.hpp"

namespace sluice::shard {
namespace {

using api::Verdict;

constexpr uint32_t keys_count = 2'000;
constexpr int64_t swept_max = 66;  // keys that the sweep matches: 64, but whole buckets

Options many_keys() {
  Options options = test_options();
  options.keys_max = keys_count;
  options.policy = {.window_ms = 3'600'000, .max_requests = 1'000};
  return options;
}

class NewRules : public testing::Test {
 protected:
  NewRules() {
    for (uint32_t key = 0; key < keys_count; ++key) keys_.push_back("key" + std::to_string(key));
    for (const std::string& key : keys_) {
      entries_.push_back(
          {.key_data = key.data(), .cost = 1, .key_bytes = static_cast<uint16_t>(key.size())});
    }
    ask_all();
  }

  // Every key has been asked once: the next request is denied by the new limit.
  void adopt() {
    const policy::Rule rule{.pattern = ".*",
                            .is_regex = true,
                            .max_requests = 1,
                            .max_requests_in_queue = {},
                            .window_ms = {}};
    driver_.shard.adopt(std::make_unique<policy::RuleBook>(many_keys().policy, std::vector{rule}),
                        driver_.now());
    end_turn();
  }

  // How many keys the new limit denies: those that follow it.
  int64_t ask_all() {
    driver_.shard.decide(entries_, {verdicts_, details_, waiters_}, driver_.now());
    return std::ranges::count(verdicts_, Verdict::denied);
  }
  void end_turn() {
    driver_.now_ns += 200'000;
    driver_.shard.run_due(driver_.now());
  }

  ShardDriver driver_{many_keys()};
  std::vector<std::string> keys_;
  std::vector<api::Entry> entries_;
  std::vector<Verdict> verdicts_ = std::vector<Verdict>(keys_count);
  std::vector<api::Detail> details_ = std::vector<api::Detail>(keys_count);
  std::vector<api::WaiterId> waiters_ = std::vector<api::WaiterId>(keys_count);
};

// 200 us of a turn are time for 50 keys, beside the sweep.
TEST_F(NewRules, match_few_keys_in_a_turn) {
  adopt();
  int64_t following = ask_all();
  for (int turn = 0; turn < 10; ++turn) {
    end_turn();
    const int64_t before = std::exchange(following, ask_all());
    EXPECT_GE(following, before + matches_in_any_turn) << turn;
    EXPECT_LE(following, before + 50 + swept_max) << turn;
  }
  for (int turn = 0; turn < 50; ++turn) {
    end_turn();
    ask_all();
  }
  EXPECT_EQ(ask_all(), keys_count);
}

TEST_F(NewRules, match_few_keys_of_handles_in_a_turn) {
  std::vector<api::Handle> handles;
  for (const std::string& key : keys_) handles.push_back(driver_.shard.intern(key));
  driver_.shard.decide(handles, verdicts_, driver_.now());
  adopt();
  driver_.shard.decide(handles, verdicts_, driver_.now());
  EXPECT_LE(std::ranges::count(verdicts_, Verdict::denied), MatchShare::keys_max + swept_max);
  for (int turn = 0; turn < 60; ++turn) {
    end_turn();
    driver_.shard.decide(handles, verdicts_, driver_.now());
  }
  EXPECT_EQ(std::ranges::count(verdicts_, Verdict::denied), keys_count);
}

TEST_F(NewRules, match_more_keys_after_a_pause) {
  adopt();
  ask_all();
  driver_.now_ns += 10 * base::ns_per_ms;
  driver_.shard.run_due(driver_.now());
  EXPECT_GE(ask_all(), MatchShare::keys_max);
}

// Whoever wants details gets the new limit, whatever else the turn has matched.
TEST_F(NewRules, hold_at_once_for_requests_with_details) {
  adopt();
  ask_all();
  EXPECT_EQ(driver_.acquire(keys_.back()), Verdict::denied);
  EXPECT_EQ(driver_.detail.limit, 1U);
}

}  // namespace
}  // namespace sluice::shard
