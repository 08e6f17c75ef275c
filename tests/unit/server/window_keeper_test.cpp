// Goal:   every window that lasts long enough is handed over within 9 s, in laps of shares; nothing
//         is written where no call came, or no window lasts so long.
// Method: a real store of keys; cuts at times of the test's choosing, read again.
#include "server/window_keeper.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "state/part_reader.hpp"
#include "tests/unit/server/fake_writer.hpp"
#include "tests/unit/shard/shard_driver.hpp"

namespace sluice::server {
namespace {

using Extent = WindowKeeper::Extent;
using Keys = std::set<std::string>;

constexpr int64_t hour_ms = 3'600'000;

shard::Options kept_options() {
  shard::Options options = shard::test_options();
  options.keys_max = 20'000;
  options.kept_window_ms = 60'000;
  options.policy.window_ms = hour_ms;
  return options;
}

class WindowKeeperTest : public testing::Test {
 protected:
  void acquire(int count) {
    for (int i = 0; i < count; ++i) driver_.acquire("key-" + std::to_string(i));
  }
  bool is_due() {
    keeper_.note_turn(driver_.now_ns);
    return keeper_.due_ns() <= driver_.now_ns;
  }
  // The keys that the next cut hands over.
  Keys cut(Extent extent = Extent::share) {
    keeper_.begin_cut(++epoch_, extent, driver_.now_ns);
    while (keeper_.write_some(buckets_, driver_.now())) ++turns_;
    keeper_.finish(
        {.epoch = epoch_, .time = {.state_ns = driver_.now_ns}, .calendar_wall_ns = 0, .order = 0});
    Keys keys;
    for (const state::PartBytes part : keeper_.parts()) {
      auto reader = state::PartReader::open(part).value();
      while (const auto record = reader.next()) {
        EXPECT_TRUE(keys.emplace(std::get<state::WindowRecord>(*record).key).second);
      }
      EXPECT_FALSE(reader.damage());
    }
    EXPECT_EQ(keeper_.records_count(), keys.size());
    return keys;
  }
  Keys cuts_of(int seconds) {
    Keys keys;
    for (int second = 0; second < seconds; ++second) {
      keys.merge(cut());
      driver_.advance_ms(1'000);
    }
    return keys;
  }

  int64_t behind_ms() const { return keeper_.behind_ns(driver_.now_ns) / base::ns_per_ms; }

  FakeWriter writer_;
  CutSchedule schedule_{writer_, {}};
  int64_t cpu_ns_ = 0;
  int64_t step_cpu_ns_ = 0;
  const StateOptions options_{.schedule = &schedule_,
                              .cpu_ns = [this] { return cpu_ns_ += step_cpu_ns_; }};
  shard::ShardDriver driver_{kept_options()};
  WindowKeeper keeper_{options_, kept_options(), driver_.shard};
  uint32_t buckets_ = 64;
  uint64_t epoch_ = 10;
  int turns_ = 0;
};

TEST_F(WindowKeeperTest, hands_over_every_key_in_a_lap_of_shares) {
  acquire(10'000);
  ASSERT_TRUE(is_due());
  size_t largest = 0;
  Keys keys;
  for (int second = 0; second < 7; ++second) {
    Keys share = cut();
    largest = std::max(largest, share.size());
    keys.merge(share);
    EXPECT_TRUE(share.empty()) << "a key is in two shares";
    EXPECT_FALSE(is_due());
    driver_.advance_ms(1'000);
  }
  EXPECT_EQ(keys.size(), 10'000U);
  EXPECT_LT(largest, 1'700U);
  EXPECT_EQ(keeper_.complete_since_epoch(), 11U);
}

TEST_F(WindowKeeperTest, writes_a_share_in_turns) {
  acquire(10'000);
  cut();
  EXPECT_GT(turns_, 5);
}

TEST_F(WindowKeeperTest, begins_the_next_lap_when_calls_came) {
  acquire(10);
  cuts_of(7);
  EXPECT_EQ(keeper_.due_ns(), base::never_ns) << "nothing can have changed";
  EXPECT_TRUE(cuts_of(7).empty());
  acquire(1);
  EXPECT_TRUE(is_due());
  EXPECT_EQ(cuts_of(7).size(), 10U);
}

TEST_F(WindowKeeperTest, has_nothing_to_do_without_a_long_window) {
  shard::Options options = kept_options();
  options.policy.window_ms = 59'999;
  shard::ShardDriver driver(options);
  WindowKeeper keeper(options_, options, driver.shard);
  driver.acquire("a");
  keeper.note_turn(driver.now_ns);
  EXPECT_EQ(keeper.due_ns(), base::never_ns);
  keeper.begin_cut(11, Extent::share, driver.now_ns);
  EXPECT_FALSE(keeper.write_some(64, driver.now()));
  EXPECT_EQ(keeper.complete_since_epoch(), 11U) << "no earlier window is needed";
}

TEST_F(WindowKeeperTest, hands_over_only_windows_that_last_long_enough) {
  driver_.acquire("short", {.window_ms = 59'999});
  driver_.acquire("long", {.window_ms = 60'000});
  EXPECT_EQ(cuts_of(7), Keys{"long"});
}

TEST_F(WindowKeeperTest, keeps_what_was_restored_until_the_first_lap_is_complete) {
  acquire(10'000);
  for (int second = 0; second < 6; ++second) {
    cut();
    EXPECT_EQ(keeper_.complete_since_epoch(), 0U);
    driver_.advance_ms(1'000);
  }
  cut();
  EXPECT_EQ(keeper_.complete_since_epoch(), 11U);
}

TEST_F(WindowKeeperTest, ends_cleanly_with_all_that_may_have_changed) {
  acquire(100);
  EXPECT_EQ(cut(Extent::changed).size(), 100U);
  EXPECT_EQ(keeper_.complete_since_epoch(), epoch_);
  EXPECT_TRUE(cut(Extent::changed).empty()) << "no call came since";
  acquire(1);
  EXPECT_EQ(cut(Extent::changed).size(), 100U);
}

TEST_F(WindowKeeperTest, leaves_a_share_out_of_a_cut_that_somebody_waits_for) {
  EXPECT_FALSE(is_due()) << "the server starts";
  acquire(10'000);
  driver_.advance_ms(1'000);
  EXPECT_TRUE(cut(Extent::little).empty());
  EXPECT_TRUE(is_due());
  driver_.advance_ms(1'000);
  EXPECT_FALSE(cut(Extent::little).empty()) << "but not for longer than a second";
}

TEST_F(WindowKeeperTest, begins_anew_where_everything_is_to_be_written) {
  acquire(1'000);
  cut();
  EXPECT_EQ(cut(Extent::all).size(), 1'000U);
  EXPECT_EQ(cut(Extent::all).size(), 1'000U);
  EXPECT_EQ(keeper_.complete_since_epoch(), epoch_);
}

TEST_F(WindowKeeperTest, says_how_long_ago_the_first_call_was_that_is_not_durable) {
  driver_.advance_ms(3'600'000);
  EXPECT_FALSE(is_due());
  EXPECT_EQ(behind_ms(), 0);
  acquire(100);
  driver_.advance_ms(500);
  EXPECT_EQ(behind_ms(), 500);
  driver_.advance_ms(500);
  cuts_of(7);
  EXPECT_EQ(behind_ms(), 8'000) << "nothing is durable yet";
  writer_.commit(epoch_);
  EXPECT_EQ(behind_ms(), 0);
  acquire(1);
  EXPECT_EQ(behind_ms(), 7'000) << "since the lap began that has everything";
}

TEST_F(WindowKeeperTest, is_not_behind_while_a_cut_without_windows_is_not_durable) {
  driver_.advance_ms(3'600'000);
  EXPECT_FALSE(is_due());
  driver_.advance_ms(500);
  EXPECT_TRUE(cut().empty());
  EXPECT_EQ(behind_ms(), 0) << "no key has such a window";
  acquire(100);
  driver_.advance_ms(500);
  ASSERT_TRUE(is_due());
  cuts_of(7);
  writer_.commit(epoch_);
  EXPECT_TRUE(cut().empty());
  EXPECT_EQ(behind_ms(), 0) << "no call came since the lap";
}

TEST_F(WindowKeeperTest, is_behind_by_a_lap_and_a_share_at_most) {
  EXPECT_FALSE(is_due()) << "the server starts";
  driver_.advance_ms(1'000);
  int64_t worst_ms = 0;
  for (int second = 0; second < 40; ++second) {
    acquire(10'000);
    ASSERT_TRUE(is_due());
    cut();
    driver_.advance_ms(200);
    worst_ms = std::max(worst_ms, behind_ms());
    writer_.commit(epoch_);
    const int64_t before_ms = behind_ms();
    driver_.advance_ms(800);
    EXPECT_EQ(behind_ms(), before_ms + 800);
    worst_ms = std::max(worst_ms, behind_ms());
  }
  EXPECT_EQ(worst_ms, 8'200);
}

TEST_F(WindowKeeperTest, is_behind_from_a_lap_that_was_written_at_once) {
  acquire(10'000);
  cut(Extent::all);
  driver_.advance_ms(1'000);
  writer_.commit(epoch_);
  acquire(1);
  EXPECT_EQ(behind_ms(), 1'000);
  driver_.advance_ms(500);
  ASSERT_TRUE(is_due());
  cut();
  writer_.commit(epoch_);
  EXPECT_EQ(behind_ms(), 1'500) << "the last shares are from the first lap";
}

TEST_F(WindowKeeperTest, slows_down_where_a_lap_takes_much_of_the_threads_time) {
  acquire(10'000);
  step_cpu_ns_ = 10 * base::ns_per_ms;
  buckets_ = 1'000'000;
  cuts_of(7);
  EXPECT_EQ(keeper_.complete_since_epoch(), 11U);
  acquire(1);
  EXPECT_TRUE(is_due()) << "70 ms are less than 3 % of 7 s";
  step_cpu_ns_ = 100 * base::ns_per_ms;
  cuts_of(7);
  acquire(1);
  EXPECT_FALSE(is_due());
  driver_.advance_ms(16'000);
  EXPECT_FALSE(is_due());
  driver_.advance_ms(1'000);
  EXPECT_TRUE(is_due()) << "700 ms are 3 % of 23.1 s";
}

TEST_F(WindowKeeperTest, does_nothing_where_no_windows_are_kept) {
  acquire(10);
  WindowKeeper off(options_, shard::test_options(), driver_.shard);
  off.note_turn(driver_.now_ns);
  EXPECT_EQ(off.due_ns(), base::never_ns);
  off.begin_cut(11, Extent::all, driver_.now_ns);
  EXPECT_FALSE(off.write_some(64, driver_.now()));
  off.finish({});
  EXPECT_TRUE(off.parts().empty());
  EXPECT_EQ(off.complete_since_epoch(), 11U) << "those of an earlier start are to be deleted";
  EXPECT_EQ(off.reserved_bytes(), 0U);
}

}  // namespace
}  // namespace sluice::server
