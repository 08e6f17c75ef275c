// Goal: each kind of limit counts, forgets and refunds to the nanosecond, as its header says.
// Method: one meter by hand, at times around the edges of its period. Buckets: gcra_meter_test.cpp.
#include "limiter/meter.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "limiter/steady_wall.hpp"
#include "unit/limiter/meter_driver.hpp"

namespace sluice::limiter {
namespace {

// Every kind that counts over time, with the same amount.
std::vector<Limit> all_kinds(uint64_t amount) {
  return {limit_of(LimitKind::fixed, amount),        limit_of(LimitKind::sliding, amount),
          limit_of(LimitKind::gcra, amount),         limit_of(LimitKind::anchored_day, amount),
          limit_of(LimitKind::rolling_day, amount),  calendar(api::CalendarUnit::hour, amount),
          calendar(api::CalendarUnit::month, amount)};
}

// --------------------------------------------------------------------------------- all kinds

TEST(Meter, counts_up_to_the_amount_and_no_further) {
  for (const Limit& limit : all_kinds(100)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    Driver driver(limit);
    EXPECT_TRUE(driver.fits(100));
    EXPECT_FALSE(driver.fits(101));
    driver.charge(90);
    EXPECT_TRUE(driver.fits(10));
    EXPECT_FALSE(driver.fits(11));
    driver.charge(10);
    EXPECT_EQ(driver.used(), 100U);
    EXPECT_TRUE(driver.fits(0));
    EXPECT_FALSE(driver.fits(1));
  }
}

TEST(Meter, zero_is_a_number_that_only_nothing_fits) {
  for (const Limit& limit : all_kinds(0)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    Driver driver(limit);
    EXPECT_TRUE(driver.fits(0));
    EXPECT_FALSE(driver.fits(1));
    EXPECT_EQ(driver.fits_at(0), driver.now().ns);
    EXPECT_EQ(driver.fits_at(1), base::never_ns);
  }
}

TEST(Meter, usage_above_the_amount_refuses_even_zero) {
  for (const Limit& limit : all_kinds(100)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    Driver driver(limit);
    driver.charge(101);
    EXPECT_FALSE(driver.fits(0));
    EXPECT_GT(driver.fits_at(0), driver.now().ns);
  }
}

TEST(Meter, more_than_the_amount_never_fits) {
  for (const Limit& limit : all_kinds(100)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    Driver driver(limit);
    EXPECT_EQ(driver.fits_at(101), base::never_ns);
    EXPECT_EQ(driver.fits_at(101, true), base::never_ns);
    EXPECT_EQ(driver.fits_at(100), driver.now().ns);
  }
}

TEST(Meter, unlimited_counts_and_blocked_lets_nothing_pass) {
  for (Limit limit : all_kinds(0)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    limit.ceiling = Ceiling::unlimited;
    Driver unlimited(limit);
    unlimited.charge(1'000);
    EXPECT_EQ(unlimited.used(), 1'000U);
    EXPECT_TRUE(unlimited.fits(limits::amount_max));
    EXPECT_EQ(unlimited.fits_at(limits::amount_max), unlimited.now().ns);
    limit.ceiling = Ceiling::block;
    Driver blocked(limit);
    EXPECT_FALSE(blocked.fits(0));
    EXPECT_EQ(blocked.fits_at(0), base::never_ns);
  }
}

TEST(Meter, usage_stops_at_the_greatest_amount_instead_of_wrapping_around) {
  for (const Limit& limit : all_kinds(limits::amount_max)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    Driver driver(limit);
    EXPECT_TRUE(driver.fits(limits::amount_max));
    driver.charge(limits::amount_max - 5);
    EXPECT_TRUE(driver.fits(5));
    EXPECT_FALSE(driver.fits(6));
    EXPECT_FALSE(driver.fits(limits::amount_max));
    const Charge last = driver.charge(limits::amount_max, true);
    EXPECT_EQ(driver.used(), limits::amount_max);
    driver.release(limits::amount_max, limits::amount_max, last);
    EXPECT_LE(driver.used(), limits::amount_max);
    driver.charge(2 * limits::amount_max);
    EXPECT_EQ(driver.used(), limits::amount_max);
  }
}

TEST(Meter, reports_open_usage_separately) {
  for (const Limit& limit : all_kinds(100)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    Driver driver(limit);
    driver.charge(10);
    const Charge held = driver.charge(20, true);
    EXPECT_EQ(driver.used(), 30U);
    EXPECT_EQ(driver.open(), 20U);
    driver.meter().close(20, 0, held, driver.now());
    EXPECT_EQ(driver.used(), 30U);
    EXPECT_EQ(driver.open(), 0U);
  }
}

TEST(Meter, a_reset_keeps_only_open_usage) {
  for (const Limit& limit : all_kinds(100)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    Driver driver(limit);
    driver.charge(70);
    const Charge held = driver.charge(20, true);
    driver.meter().reset(driver.now());
    driver.meter().check();
    EXPECT_EQ(driver.used(), 20U);
    EXPECT_EQ(driver.open(), 20U);
    driver.release(20, 20, held);
    EXPECT_EQ(driver.open(), 0U);
    EXPECT_EQ(driver.used(), 0U);
  }
}

TEST(Meter, fits_earlier_with_all_open_usage_refunded) {
  for (const Limit& limit : all_kinds(100)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    Driver driver(limit);
    driver.charge(40);
    driver.charge(60, true);
    EXPECT_GT(driver.fits_at(60), driver.now().ns);
    EXPECT_EQ(driver.fits_at(60, true), driver.now().ns);
    EXPECT_GT(driver.fits_at(61, true), driver.now().ns);
  }
}

// Waiting until fits_at is enough, and one nanosecond less is not.
TEST(Meter, fits_at_the_very_nanosecond_that_it_reports) {
  for (const Limit& limit : all_kinds(100)) {
    for (const uint64_t asked : {uint64_t{1}, uint64_t{37}, uint64_t{100}}) {
      SCOPED_TRACE(std::string(api::kind_name(limit.kind)) + " " + std::to_string(asked));
      Driver driver(limit, 17 * s + 3, 99 * s);
      driver.charge(45);
      driver.at(driver.now().ns + 7 * s + 1).charge(100);
      const int64_t fits_ns = driver.fits_at(asked);
      ASSERT_GT(fits_ns, driver.now().ns);
      EXPECT_FALSE(driver.at(fits_ns - 1).fits(asked));
      EXPECT_TRUE(driver.at(fits_ns).fits(asked));
    }
  }
}

// Amount times period is more than 64 bits hold.
TEST(Meter, large_amounts_fit_when_their_part_of_the_period_has_passed) {
  constexpr uint64_t amount = 2'000'000'000;
  constexpr int64_t day_ns = 86'400 * s;
  Driver driver(limit_of(LimitKind::gcra, amount, day_ns / base::ns_per_ms));
  driver.charge(amount);
  const auto after = [&](int64_t at_ns) { return at_ns - driver.now().ns; };
  EXPECT_NEAR(after(driver.fits_at(amount / 2)), day_ns / 2, 2.0);
  EXPECT_NEAR(after(driver.fits_at(amount)), day_ns, 2.0);
  EXPECT_NEAR(after(driver.empty_at()), day_ns, 2.0);
}

TEST(Meter, is_empty_at_the_very_nanosecond_that_it_reports) {
  for (const Limit& limit : all_kinds(100)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    Driver driver(limit, 5, 5);
    EXPECT_EQ(driver.empty_at(), driver.now().ns);
    driver.charge(45);
    driver.at(driver.now().ns + 2 * s).charge(1);
    const int64_t empty_ns = driver.empty_at();
    // A bucket's last drop is gone within the nanosecond.
    const int64_t slack = limit.kind == LimitKind::gcra ? 1 : 0;
    EXPECT_GT(driver.at(empty_ns - 1 - slack).used(), 0U);
    EXPECT_EQ(driver.at(empty_ns + slack).used(), 0U);
  }
}

TEST(Meter, a_refund_of_an_expired_charge_changes_nothing) {
  for (const Limit& limit : all_kinds(100)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    Driver driver(limit);
    const Charge held = driver.charge(60, true);
    driver.at(32 * day);
    driver.charge(80);
    driver.release(60, 60, held);
    EXPECT_EQ(driver.used(), 80U);
    EXPECT_EQ(driver.open(), 0U);
  }
}

TEST(Meter, keeps_its_usage_when_its_amount_changes) {
  for (const Limit& limit : all_kinds(100)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    Driver driver(limit);
    driver.charge(30);
    const Charge held = driver.charge(30, true);
    Limit more = limit;
    more.amount = 200;
    driver.change_to(more);
    EXPECT_EQ(driver.used(), 60U);
    EXPECT_TRUE(driver.fits(140));
    EXPECT_FALSE(driver.fits(141));
    driver.release(30, 30, held);
    EXPECT_LE(driver.used(), 31U);
    Limit less = limit;
    less.amount = 10;
    driver.change_to(less);
    EXPECT_FALSE(driver.fits(0));
  }
}

// ------------------------------------------------------------------------------------- fixed

TEST(FixedMeter, is_anchored_at_its_first_use_and_keeps_its_phase) {
  Driver driver(limit_of(LimitKind::fixed, 100));
  driver.at(7 * s).charge(0);  // nothing is no use
  driver.at(10 * s).charge(100);
  EXPECT_EQ(driver.fits_at(1), 70 * s);
  EXPECT_FALSE(driver.at(70 * s - 1).fits(1));
  EXPECT_TRUE(driver.at(70 * s).fits(100));
  driver.at(200 * s).charge(100);  // in the window from 190 s on
  EXPECT_EQ(driver.fits_at(1), 250 * s);
}

TEST(FixedMeter, refunds_only_charges_of_this_window) {
  Driver driver(limit_of(LimitKind::fixed, 100));
  const Charge old = driver.at(10 * s).charge(50, true);
  driver.at(70 * s - 1).release(0, 0, {});
  const Charge recent = driver.at(70 * s).charge(60, true);
  driver.release(50, 50, old);
  EXPECT_EQ(driver.used(), 60U);
  EXPECT_EQ(driver.open(), 60U);
  driver.release(60, 45, recent);
  EXPECT_EQ(driver.used(), 15U);
  EXPECT_EQ(driver.open(), 0U);
}

// ----------------------------------------------------------------------------------- sliding

TEST(SlidingMeter, forgets_at_most_one_sub_window_late_and_never_early) {
  constexpr int64_t period = 60 * s;
  for (const int64_t charged_ns : {int64_t{0}, 3 * s, 4 * s - 1, 4 * s, 59 * s + 999}) {
    Driver driver(limit_of(LimitKind::sliding, 10), 0);
    driver.at(charged_ns).charge(10);
    EXPECT_FALSE(driver.at(charged_ns + period - 1).fits(1)) << charged_ns;
    EXPECT_EQ(driver.used(), 10U) << charged_ns;
    const int64_t gone_ns = driver.fits_at(1);
    EXPECT_GE(gone_ns, charged_ns + period);
    EXPECT_LE(gone_ns, charged_ns + period + driver.shape().width_ns);
    EXPECT_TRUE(driver.at(gone_ns).fits(10));
  }
}

TEST(SlidingMeter, a_period_that_sub_windows_do_not_divide_is_not_shortened) {
  const Limit limit = limit_of(LimitKind::sliding, 10, 77);
  EXPECT_GE(compile(limit).width_ns * (sliding_places - 1), 77 * ms);
  EXPECT_LE(compile(limit).width_ns * (sliding_places - 1), 77 * ms + 63);
  Driver driver(limit);
  driver.at(1'234'567).charge(10);
  EXPECT_FALSE(driver.at(1'234'567 + 77 * ms - 1).fits(1));
}

TEST(SlidingMeter, forgets_little_by_little) {
  Driver driver(limit_of(LimitKind::sliding, 15));
  for (int64_t sub_window = 0; sub_window < 15; ++sub_window) {
    driver.at(sub_window * 4 * s + s).charge(1);
  }
  EXPECT_FALSE(driver.fits(1));
  EXPECT_EQ(driver.fits_at(1), 64 * s);
  EXPECT_EQ(driver.fits_at(3), 72 * s);
  EXPECT_EQ(driver.at(64 * s).used(), 14U);
  EXPECT_EQ(driver.at(71 * s).used(), 13U);
  EXPECT_EQ(driver.at(10 * hour).used(), 0U);
}

TEST(SlidingMeter, refunds_the_sub_window_that_was_charged) {
  Driver driver(limit_of(LimitKind::sliding, 100));
  const Charge held = driver.at(1 * s).charge(40, true);
  driver.at(30 * s).charge(60);
  driver.release(40, 25, held);
  EXPECT_EQ(driver.used(), 75U);
  // The rest of the first charge expires with its sub-window: 15, not the amount before the refund.
  EXPECT_EQ(driver.at(64 * s).used(), 60U);
  EXPECT_EQ(driver.at(92 * s).used(), 0U);
}

TEST(SlidingMeter, refunds_a_charge_in_its_last_nanosecond) {
  Driver driver(limit_of(LimitKind::sliding, 100));
  const Charge held = driver.at(1 * s).charge(40, true);
  driver.at(64 * s - 1).release(40, 40, held);
  EXPECT_EQ(driver.used(), 0U);
  Driver late(limit_of(LimitKind::sliding, 100));
  const Charge gone = late.at(1 * s).charge(40, true);
  late.at(64 * s).charge(40);
  late.release(40, 40, gone);
  EXPECT_EQ(late.used(), 40U);
}

TEST(RollingDayMeter, forgets_at_most_one_sub_window_late_and_never_early) {
  Driver driver(limit_of(LimitKind::rolling_day, 10));
  EXPECT_EQ(driver.shape().width_ns, (day + 62) / 63);
  driver.at(hour).charge(10);
  EXPECT_FALSE(driver.at(hour + day - 1).fits(1));
  const int64_t gone_ns = driver.fits_at(1);
  EXPECT_LE(gone_ns, hour + day + driver.shape().width_ns);
  EXPECT_FALSE(driver.at(gone_ns - 1).fits(1));
  EXPECT_TRUE(driver.at(gone_ns).fits(10));
}

// -------------------------------------------------------------------------------------- days

TEST(AnchoredDayMeter, begins_with_the_first_use_and_again_with_the_first_use_behind_it) {
  Driver driver(limit_of(LimitKind::anchored_day, 10));
  driver.at(5 * hour).charge(10);
  EXPECT_FALSE(driver.at(5 * hour + day - 1).fits(1));
  EXPECT_TRUE(driver.at(5 * hour + day).fits(10));
  driver.at(5 * hour + day + 9 * hour).charge(10);  // not in phase with the first
  EXPECT_EQ(driver.fits_at(1), 5 * hour + 2 * day + 9 * hour);
}

TEST(AnchoredDayMeter, its_period_is_a_day_whatever_was_given) {
  EXPECT_EQ(compile(limit_of(LimitKind::anchored_day, 1, 0)).period_ns, day);
  EXPECT_EQ(compile(limit_of(LimitKind::rolling_day, 1, 0)).period_ns, day);
}

// ---------------------------------------------------------------------------------- calendar

constexpr int64_t march_14_2021 = 1'615'708'800 * s;    // midnight in Los Angeles, 08:00 UTC
constexpr int64_t november_7_2021 = 1'636'268'400 * s;  // midnight in Los Angeles, 07:00 UTC

TEST(CalendarMeter, a_day_has_23_hours_when_clocks_go_forward) {
  Driver driver(calendar(api::CalendarUnit::day, 10, "America/Los_Angeles"), 0, march_14_2021);
  driver.charge(10);
  EXPECT_FALSE(driver.wall_at(march_14_2021 + 23 * hour - 1).fits(1));
  EXPECT_TRUE(driver.wall_at(march_14_2021 + 23 * hour).fits(10));
}

TEST(CalendarMeter, a_day_has_25_hours_when_clocks_go_back) {
  Driver driver(calendar(api::CalendarUnit::day, 10, "America/Los_Angeles"), 0, november_7_2021);
  driver.charge(10);
  EXPECT_EQ(driver.fits_at(1), 25 * hour);
  EXPECT_FALSE(driver.wall_at(november_7_2021 + 25 * hour - 1).fits(1));
  EXPECT_TRUE(driver.wall_at(november_7_2021 + 25 * hour).fits(10));
}

TEST(CalendarMeter, a_month_ends_with_the_calendar) {
  constexpr int64_t february_1_2024 = 1'706'745'600 * s;
  Driver driver(calendar(api::CalendarUnit::month, 10), 0, february_1_2024);
  driver.charge(10);
  EXPECT_FALSE(driver.wall_at(february_1_2024 + 29 * day - 1).fits(1));
  EXPECT_TRUE(driver.wall_at(february_1_2024 + 29 * day).fits(10));
}

TEST(CalendarMeter, reports_its_end_in_monotonic_time) {
  Driver driver(calendar(api::CalendarUnit::hour, 10), 500 * s, 50 * 60 * s);
  driver.charge(10);
  EXPECT_EQ(driver.fits_at(1), 500 * s + 600 * s);
}

TEST(CalendarMeter, a_wall_clock_that_goes_back_reopens_no_period) {
  SteadyWall wall;
  const auto at = [&wall](int64_t ns, int64_t wall_ns) {
    return wall.at({.monotonic_ns = ns, .wall_ns = wall_ns});
  };
  Driver driver(calendar(api::CalendarUnit::hour, 10), 0, at(0, 10 * hour - s));
  const Charge old = driver.charge(10, true);
  driver.at(s, at(s, 10 * hour));
  EXPECT_TRUE(driver.fits(10));
  driver.charge(10);
  driver.at(2 * s, at(2 * s, 9 * hour));  // an hour back
  EXPECT_EQ(driver.used(), 10U);
  driver.release(10, 10, old);  // its period stays closed
  EXPECT_EQ(driver.used(), 10U);
  EXPECT_FALSE(driver.at(10 * s, at(10 * s, 9 * hour + 8 * s)).fits(1));
}

TEST(ConcurrencyMeter, has_no_words_of_its_own) {
  Driver driver({.name = "slots",
                 .metric = Metric::concurrency,
                 .kind = LimitKind::concurrency,
                 .amount = 2,
                 .time_zone = {}});
  EXPECT_EQ(words_count(driver.shape()), 0U);
  const Charge held = driver.charge(1, true);
  driver.release(1, 1, held);
  EXPECT_EQ(driver.used(), 0U);
  EXPECT_EQ(driver.empty_at(), driver.now().ns);
}

}  // namespace
}  // namespace sluice::limiter
