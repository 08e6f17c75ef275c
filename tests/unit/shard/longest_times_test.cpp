// Goal:   windows and waits last their whole life at the greatest values: to the last millisecond,
//         and no longer.
// Method: a shard with a clock of the test's own, which goes day by day, so that timers move
//         through all levels of the wheel and the sweep visits the key; and in one step.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>

#include "base/limits.hpp"
#include "tests/support/greatest_flag.hpp"
#include "unit/shard/shard_driver.hpp"

namespace sluice::shard {
namespace {

using api::Verdict;
using Grants = std::vector<std::pair<api::Ticket, Verdict>>;

constexpr int64_t day_ms = 86'400'000;
constexpr uint32_t longest_wait_ms = limits::wait_ms_max;

class LongestTimes : public testing::TestWithParam<int64_t> {
 protected:
  // Goes on in steps of the parameter.
  void advance_ms(int64_t ms) {
    while (ms > 0) {
      const int64_t step = std::min(ms, GetParam());
      driver_.advance_ms(step);
      ms -= step;
    }
    driver_.shard.check_invariants(driver_.now());
  }
  void exhaust() { ASSERT_EQ(driver_.acquire("k", {.cost = 10}), Verdict::approved); }
  void queue(api::Ticket ticket, uint32_t wait_ms_max) {
    ASSERT_EQ(
        driver_.acquire("k", {.may_wait = true, .ticket = ticket, .wait_ms_max = wait_ms_max}),
        Verdict::queued);
  }

  static Options options() {
    Options options = test_options();
    options.policy.window_ms = limits::window_ms_max;
    return options;
  }
  ShardDriver driver_{options()};
};

TEST_P(LongestTimes, a_window_of_a_year_ends_after_a_year) {
  exhaust();
  EXPECT_EQ(driver_.detail.reset_ms, limits::window_ms_max);
  advance_ms(limits::window_ms_max - 1);
  EXPECT_EQ(driver_.acquire("k"), Verdict::denied);
  EXPECT_EQ(driver_.detail.reset_ms, 1);
  advance_ms(1);
  EXPECT_EQ(driver_.acquire("k"), Verdict::approved);
}

TEST_P(LongestTimes, a_waiter_is_served_when_the_year_is_over) {
  exhaust();
  queue(7, 0);
  advance_ms(limits::window_ms_max - 1);
  EXPECT_EQ(driver_.take_grants(), Grants{});
  advance_ms(1);
  EXPECT_EQ(driver_.take_grants(), (Grants{{7, Verdict::approved}}));
}

TEST_P(LongestTimes, the_longest_wait_ends_after_an_hour) {
  exhaust();
  advance_ms(300 * day_ms);  // late in the window
  queue(7, longest_wait_ms);
  advance_ms(longest_wait_ms - 1);
  EXPECT_EQ(driver_.take_grants(), Grants{});
  advance_ms(1);
  EXPECT_EQ(driver_.take_grants(), (Grants{{7, Verdict::wait_limit}}));
}

TEST_P(LongestTimes, an_idle_key_is_remembered_for_its_windows) {
  exhaust();
  advance_ms(limits::idle_windows * limits::window_ms_max - 1);
  EXPECT_EQ(driver_.shard.statistics().keys_expired, 0U);
  advance_ms(limits::window_ms_max + day_ms);  // the sweep has come to it
  EXPECT_EQ(driver_.shard.statistics().keys_expired, 1U);
}

INSTANTIATE_TEST_SUITE_P(Steps, LongestTimes,
                         testing::Values(day_ms, limits::idle_windows* limits::window_ms_max));

TEST(LongestDefaultWindow, ends_after_an_hour) {
  const int64_t window_ms = test::greatest("window-millis");
  Options options = test_options();
  options.policy.window_ms = window_ms;
  ShardDriver driver{options};
  ASSERT_EQ(driver.acquire("k", {.cost = 10}), Verdict::approved);
  driver.advance_ms(window_ms - 1);
  EXPECT_EQ(driver.acquire("k"), Verdict::denied);
  driver.advance_ms(1);
  EXPECT_EQ(driver.acquire("k"), Verdict::approved);
}

// What survives a restart when only the longest windows do.
class KeptWindows final : public state::WindowSink {
 public:
  void append(const state::WindowRecord& window) noexcept override {
    keys.emplace_back(window.key);
    last = window;
    last.key = keys.back();
  }
  static KeptWindows of(ShardDriver& driver) {
    KeptWindows kept;
    driver.shard.write_windows({.cursor = 0, .end = positions_end, .buckets_max = UINT32_MAX / 2},
                               kept, driver.now());
    return kept;
  }
  std::deque<std::string> keys;
  state::WindowRecord last;
};

TEST(LongestKeptWindow, survives_a_restart_to_its_last_millisecond) {
  Options options = test_options();
  options.kept_window_ms = test::greatest("state-window-millis");
  ShardDriver driver{options};
  ASSERT_EQ(driver.acquire("long", {.cost = 10, .window_ms = options.kept_window_ms}),
            Verdict::approved);
  ASSERT_EQ(driver.acquire("shorter", {.window_ms = options.kept_window_ms - 1}),
            Verdict::approved);
  driver.advance_ms(options.kept_window_ms - 2);
  const KeptWindows kept = KeptWindows::of(driver);
  ASSERT_EQ(kept.keys, std::deque<std::string>{"long"});

  ShardDriver after{options};
  after.now_ns = driver.now_ns + base::ns_per_ms;
  ASSERT_EQ(after.shard.restore(kept.last, after.now()), Restoring::is_there);
  EXPECT_EQ(after.acquire("long"), Verdict::denied);
  EXPECT_EQ(after.detail.reset_ms, 1);
  after.advance_ms(1);
  EXPECT_EQ(after.acquire("long"), Verdict::approved);
}

// A full table of more buckets than one search for a key to evict visits: the only key that may be
// evicted is found wherever it is.
TEST(FullTable, evicts_the_only_idle_key_beyond_one_search) {
  Options options = test_options();
  options.keys_max = 40'000;
  options.key_bytes_max = 16;
  ShardDriver driver{options};
  const auto fill_with = [&](std::string_view name) {
    std::vector<std::string> taken;
    for (int number = 0;; ++number) {
      std::string key = std::string(name).append(std::to_string(number));
      if (driver.acquire(key) != Verdict::approved) return taken;
      taken.push_back(std::move(key));
    }
  };
  const std::vector<std::string> keys = fill_with("k");
  ASSERT_GT(keys.size(), size_t{options.keys_max} - 1);
  driver.now_ns += 600 * base::ns_per_ms;
  driver.run_due();
  ASSERT_EQ(driver.acquire("new"), Verdict::table_full);
  driver.now_ns += 401 * base::ns_per_ms;  // all windows have ended; all but one begin anew
  for (size_t i = 1; i < keys.size(); ++i) ASSERT_EQ(driver.acquire(keys[i]), Verdict::approved);
  int tries = 1;
  while (driver.acquire("new") == Verdict::table_full && tries < 1'000) ++tries;
  EXPECT_EQ(driver.acquire("new"), Verdict::approved) << tries << " tries";
  EXPECT_EQ(driver.shard.statistics().keys_evicted, 1U);
  for (size_t i = 1; i < keys.size(); ++i) {
    ASSERT_EQ(driver.acquire(keys[i]), Verdict::approved);
    ASSERT_EQ(driver.detail.remaining, 8U) << "a live key was evicted";
  }
}

}  // namespace
}  // namespace sluice::shard
