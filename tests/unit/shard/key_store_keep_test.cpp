// Goal:   a window that lasts long enough is the same after a restart: its permits, its end, and
//         what requests have changed.
// Method: two shards, the records of one restored into the other at times of the test's choosing.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "unit/shard/shard_driver.hpp"

namespace sluice::shard {
namespace {

using api::Verdict;

// Records as they were written.
class Written final : public state::WindowSink {
 public:
  void append(const state::WindowRecord& window) noexcept override {
    EXPECT_TRUE(by_key.emplace(window.key, window).second) << window.key << " is there twice";
    auto& kept = *by_key.find(std::string(window.key));
    kept.second.key = kept.first;
  }
  std::map<std::string, state::WindowRecord> by_key;
};

Options kept_options() {
  Options options = test_options();
  options.kept_window_ms = 1'000;
  return options;
}

class KeyStoreKeepTest : public testing::Test {
 protected:
  Written write(uint32_t buckets_max = 3) {
    Written written;
    uint64_t cursor = 0;
    while (cursor < positions_end) {
      cursor = before_.shard.write_windows(
          {.cursor = cursor, .end = positions_end, .buckets_max = buckets_max}, written,
          before_.now());
    }
    return written;
  }
  // So long after.
  std::vector<Restoring> restore(int64_t downtime_ms = 0) {
    std::vector<Restoring> restored;
    after_.now_ns = before_.now_ns + downtime_ms * base::ns_per_ms;
    for (const auto& [key, window] : write().by_key) {
      restored.push_back(after_.shard.restore(window, after_.now()));
    }
    after_.shard.check_invariants(after_.now());
    return restored;
  }
  void TearDown() override {
    for (ShardDriver* driver : {&before_, &after_}) driver->shard.check_invariants(driver->now());
  }

  ShardDriver before_{kept_options()};
  ShardDriver after_{kept_options()};
};

TEST_F(KeyStoreKeepTest, writes_every_key_with_a_long_window_once) {
  for (int i = 0; i < 90; ++i) before_.acquire("key-" + std::to_string(i));
  before_.acquire("short", {.window_ms = 999});
  EXPECT_EQ(write(1).by_key.size(), 90U);
  EXPECT_EQ(write(1'000).by_key.size(), 90U);
  EXPECT_TRUE(before_.shard.may_have_kept_windows());
}

TEST_F(KeyStoreKeepTest, writes_keys_that_are_decided_by_handle) {
  const api::Handle handle = before_.shard.intern("a");
  Verdict verdict = Verdict::none;
  before_.shard.decide(std::span(&handle, 1), std::span(&verdict, 1), before_.now());
  before_.shard.decide(std::span(&handle, 1), std::span(&verdict, 1), before_.now());
  EXPECT_EQ(write().by_key.at("a").approved, 2U);
  before_.shard.drop_handle_reference(handle);
}

TEST_F(KeyStoreKeepTest, has_none_to_keep_where_all_windows_are_short) {
  EXPECT_FALSE(before_.shard.may_have_kept_windows());
  before_.acquire("a", {.window_ms = 999});
  write();
  EXPECT_FALSE(before_.shard.may_have_kept_windows());
  before_.acquire("a", {.window_ms = 1'001});
  EXPECT_TRUE(before_.shard.may_have_kept_windows());
}

TEST_F(KeyStoreKeepTest, finds_long_windows_of_keys_with_waiters) {
  before_.acquire("a", {.cost = 10});
  before_.acquire("a", {.may_wait = true, .ticket = 1});
  write();
  EXPECT_TRUE(before_.shard.may_have_kept_windows()) << "such a key has no class";
}

TEST_F(KeyStoreKeepTest, restores_permits_and_the_end) {
  before_.acquire("a", {.cost = 7});
  before_.acquire("a", {.cost = 4});
  restore(400);
  EXPECT_EQ(after_.acquire("a", {.cost = 4}), Verdict::denied);
  EXPECT_EQ(after_.detail.remaining, 3U);
  EXPECT_EQ(after_.detail.reset_ms, 600);
  EXPECT_EQ(after_.acquire("a", {.cost = 3}), Verdict::approved);
  const auto state = after_.shard.inspect("a", after_.now());
  ASSERT_TRUE(state);
  EXPECT_EQ(state->denied, 2U);
}

TEST_F(KeyStoreKeepTest, goes_on_in_phase_when_the_window_has_ended) {
  before_.acquire("a", {.cost = 10});
  restore(1'300);
  EXPECT_EQ(after_.acquire("a", {.cost = 10}), Verdict::approved);
  EXPECT_EQ(after_.detail.reset_ms, 700);
}

TEST_F(KeyStoreKeepTest, forgets_a_key_whose_time_is_over) {
  before_.acquire("a");
  EXPECT_EQ(restore(5'000), std::vector{Restoring::is_over});
  EXPECT_EQ(after_.shard.keys_count(), 0U);
}

TEST_F(KeyStoreKeepTest, restores_what_requests_have_changed) {
  before_.acquire("a", {.max_requests = 3, .max_requests_in_queue = 1, .window_ms = 2'000});
  restore(500);
  EXPECT_EQ(after_.acquire("a"), Verdict::approved);
  EXPECT_EQ(after_.detail.limit, 3U);
  EXPECT_EQ(after_.detail.window_ms, 2'000);
  EXPECT_EQ(after_.detail.reset_ms, 1'500);
}

TEST_F(KeyStoreKeepTest, restores_more_denials_than_a_cell_can_count) {
  state::WindowRecord window{.key = "a",
                             .end_ms = base::floor_ms(after_.now_ns) + 500,
                             .approved = 10,
                             .denied = UINT32_MAX,
                             .policy = test_options().policy,
                             .rules_policy = test_options().policy};
  EXPECT_EQ(after_.shard.restore(window, after_.now()), Restoring::is_there);
  EXPECT_EQ(after_.shard.inspect("a", after_.now())->denied, UINT32_MAX);
}

TEST_F(KeyStoreKeepTest, treats_other_rules_as_new_ones) {
  before_.acquire("a", {.cost = 7, .max_requests = 8});
  before_.acquire("b", {.cost = 7});
  const policy::Rule rule{.pattern = "", .is_regex = true, .window_ms = 3'000};
  const auto rules = [&] {
    return std::make_unique<policy::RuleBook>(test_options().policy, std::vector{rule});
  };
  after_.shard.adopt(rules(), after_.now());
  restore(500);
  before_.now_ns = after_.now_ns;
  before_.shard.adopt(rules(), before_.now());
  for (const char* key : {"a", "b"}) {
    for (ShardDriver* driver : {&before_, &after_}) {
      EXPECT_EQ(driver->acquire(key, {.cost = 4}), Verdict::denied) << key;
      EXPECT_EQ(driver->detail.limit, 10U) << key;
      EXPECT_EQ(driver->detail.remaining, 3U) << key;
      EXPECT_EQ(driver->detail.reset_ms, 3'000) << key;
    }
  }
}

TEST_F(KeyStoreKeepTest, leaves_a_key_that_is_there_as_it_is) {
  before_.acquire("a", {.cost = 7});
  after_.acquire("a", {.cost = 2});
  restore();
  EXPECT_EQ(after_.shard.inspect("a", after_.now())->approved, 2U);
}

TEST_F(KeyStoreKeepTest, says_when_there_is_no_room) {
  Options small = kept_options();
  small.keys_max = 1;
  ShardDriver driver(small);
  for (const char* key : {"a", "b"}) before_.acquire(key);
  std::vector<Restoring> restored;
  for (const auto& [key, window] : write().by_key) {
    restored.push_back(driver.shard.restore(window, before_.now()));
  }
  EXPECT_EQ(restored, (std::vector{Restoring::is_there, Restoring::has_no_room}));
}

TEST_F(KeyStoreKeepTest, has_no_room_for_a_key_that_is_too_long) {
  Options small = kept_options();
  small.key_bytes_max = 3;
  ShardDriver driver(small);
  before_.acquire("long");
  EXPECT_EQ(driver.shard.restore(write().by_key.at("long"), before_.now()), Restoring::has_no_room);
}

}  // namespace
}  // namespace sluice::shard
