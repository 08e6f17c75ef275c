// Goal: rates are those of the last one to two seconds, from the first on, by outcome.
// Method: the test sets the counters and the clock.
#include "server/rate_window.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace sluice::server {
namespace {

using api::Verdict;

class Counters {
 public:
  void add(Verdict verdict, uint64_t count) {
    statistics.decisions[static_cast<size_t>(verdict)] += count;
  }
  // A turn every 100 ms for `ms`, with `approvals` each.
  void run(RateWindow& window, int64_t ms, uint64_t approvals) {
    for (int64_t end_ns = now_ns + ms * base::ns_per_ms; now_ns < end_ns;) {
      now_ns += 100 * base::ns_per_ms;
      add(Verdict::approved, approvals);
      window.advance(now_ns, statistics);
    }
  }
  Rates rates(const RateWindow& window) const { return window.per_second(now_ns, statistics); }

  // Approved in the last `ms`, counted by the test.
  uint64_t since(int64_t ms) const {
    uint64_t count = 0;
    for (const auto& [ns, entries] : recent)
      if (ns > now_ns - ms * base::ns_per_ms) count += entries;
    return count;
  }

  std::vector<std::pair<int64_t, uint64_t>> recent;
  shard::Statistics statistics;
  int64_t now_ns = 77'000'000'000;
};

TEST(RateWindow, reports_zero_before_the_first_turn) {
  EXPECT_EQ(Counters{}.rates({}).decisions(), 0);
}

TEST(RateWindow, reports_a_steady_rate_at_any_time) {
  RateWindow window;
  Counters counters;
  counters.run(window, 1'200, 5);
  for (int i = 0; i < 40; ++i) {
    counters.run(window, 100, 5);
    EXPECT_NEAR(counters.rates(window).approved, 50, 0.01);
  }
}

TEST(RateWindow, first_second_is_not_extrapolated) {
  RateWindow window;
  Counters counters;
  counters.run(window, 100, 0);
  counters.run(window, 100, 40);
  EXPECT_NEAR(counters.rates(window).approved, 40, 0.01);
}

TEST(RateWindow, rate_is_zero_two_seconds_after_the_last_entry) {
  RateWindow window;
  Counters counters;
  counters.run(window, 5'000, 1'000);
  counters.run(window, 2'100, 0);
  EXPECT_EQ(counters.rates(window).approved, 0);
}

// As after SIGSTOP, or on a machine that slept: no turn for a while.
TEST(RateWindow, a_pause_between_turns_is_no_part_of_the_rate) {
  RateWindow window;
  Counters counters;
  counters.run(window, 5'000, 5);
  counters.now_ns += 30'000 * base::ns_per_ms;
  counters.run(window, 1'000, 5);
  for (int i = 0; i < 40; ++i) {
    EXPECT_NEAR(counters.rates(window).approved, 50, 5.01) << i;
    counters.run(window, 100, 5);
  }
}

// The entries between two moments are those that a reader of both counts.
TEST(RateWindow, rates_add_up_to_the_entries_across_pauses_and_bursts) {
  RateWindow window;
  Counters counters;
  counters.run(window, 3'000, 0);
  uint64_t state = 1;
  for (int step = 0; step < 2'000; ++step) {
    state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    const uint64_t random = state >> 33;
    const uint64_t burst = random % 7;
    const int64_t pause_ms = random % 50 == 0 ? 5'000 : 100;
    counters.now_ns += pause_ms * base::ns_per_ms;
    window.advance(counters.now_ns, counters.statistics);
    counters.add(Verdict::approved, burst);
    counters.recent.push_back({counters.now_ns, burst});
    const double approved = counters.rates(window).approved;
    // At least those of the last second, at most those of the last two, over one second or two.
    EXPECT_LE(approved, static_cast<double>(counters.since(2'000)) + 0.01) << step;
    EXPECT_GE(approved, static_cast<double>(counters.since(900)) / 2 - 0.01) << step;
  }
}

TEST(RateWindow, counts_every_refusal_as_denied) {
  RateWindow window;
  Counters counters;
  counters.run(window, 100, 0);
  counters.add(Verdict::approved, 1);
  counters.add(Verdict::queued, 2);
  counters.add(Verdict::denied, 4);
  counters.add(Verdict::table_full, 8);
  const Rates rates = counters.rates(window);
  EXPECT_EQ(rates.approved, 1);
  EXPECT_EQ(rates.queued, 2);
  EXPECT_EQ(rates.denied, 12);
  EXPECT_EQ(rates.decisions(), 15);
}

}  // namespace
}  // namespace sluice::server
