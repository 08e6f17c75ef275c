// Goal: rates are those of the last one to two seconds, from the first on, by outcome.
// Method: the test sets the counters and the clock.
#include "server/rate_window.hpp"

#include <gtest/gtest.h>

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
