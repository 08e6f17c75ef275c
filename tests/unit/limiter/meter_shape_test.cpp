// Goal: a limit is compiled to a shape that its meters can rely on, and its share of some amounts
//       is right.
// Method: shapes and shares by hand.
#include "limiter/meter_shape.hpp"

#include <gtest/gtest.h>

#include "unit/limiter/meter_driver.hpp"

namespace sluice::limiter {
namespace {

TEST(MeterShape, sub_windows_span_the_period_and_none_is_cut_short) {
  const MeterShape shape = compile(limit_of(LimitKind::sliding, 10, 10));
  EXPECT_EQ(shape.ring_mask, 15);
  EXPECT_EQ(shape.width_ns, 666'667);  // a fifteenth of 10 ms, rounded up
  EXPECT_EQ(compile(limit_of(LimitKind::rolling_day, 10)).ring_mask, 63);
}

TEST(MeterShape, only_sliding_limits_and_rolling_days_need_no_more_than_a_ring) {
  for (const LimitKind kind : {LimitKind::concurrency, LimitKind::fixed, LimitKind::sliding,
                               LimitKind::gcra, LimitKind::anchored_day, LimitKind::rolling_day}) {
    const bool is_ring = kind == LimitKind::sliding || kind == LimitKind::rolling_day;
    EXPECT_EQ(compile(limit_of(kind, 10)).slides, is_ring) << static_cast<int>(kind);
  }
  EXPECT_FALSE(compile(calendar(api::CalendarUnit::day, 10)).slides);
}

TEST(MeterShape, a_word_in_the_place_of_the_number_takes_more_than_the_ring) {
  for (const Ceiling word : {Ceiling::unlimited, Ceiling::block}) {
    Limit limit = limit_of(LimitKind::sliding, 0);
    limit.ceiling = word;
    EXPECT_FALSE(compile(limit).slides);
  }
}

TEST(MeterShare, counts_the_amounts_of_its_metric) {
  const api::Amounts amounts{
      .requests = 2, .input_tokens = 300, .output_tokens = 50, .cost = 7'000};
  const auto share = [&amounts](Metric metric, bool count_cached, uint64_t cached) {
    return Shares(amounts, cached).of({.metric = metric, .count_cached = count_cached});
  };
  EXPECT_EQ(share(Metric::requests, false, 100), 2U);
  EXPECT_EQ(share(Metric::input_tokens, false, 100), 200U);
  EXPECT_EQ(share(Metric::input_tokens, true, 100), 300U);
  EXPECT_EQ(share(Metric::input_tokens, false, 1'000), 0U);
  EXPECT_EQ(share(Metric::output_tokens, false, 100), 50U);
  EXPECT_EQ(share(Metric::tokens, false, 100), 250U);
  EXPECT_EQ(share(Metric::tokens, true, 100), 350U);
  EXPECT_EQ(share(Metric::cost, false, 100), 7'000U);
  EXPECT_EQ(share(Metric::concurrency, false, 100), 1U);
}

TEST(MeterShare, of_both_tokens_at_their_greatest_does_not_wrap_around) {
  const api::Amounts amounts{.input_tokens = limits::amount_max,
                             .output_tokens = limits::amount_max};
  EXPECT_EQ(Shares(amounts).of({.metric = Metric::tokens}), 2 * limits::amount_max);
  Driver driver(limit_of(LimitKind::sliding, limits::amount_max));
  EXPECT_FALSE(driver.fits(2 * limits::amount_max));
  EXPECT_EQ(driver.fits_at(2 * limits::amount_max), base::never_ns);
}

}  // namespace
}  // namespace sluice::limiter
