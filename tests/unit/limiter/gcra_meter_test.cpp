// Goal: a bucket leaks evenly, without loss to rounding, and after a refund its level is as if the
//       refunded charge had never been made, up to the leak of one sub-window.
// Method: one meter by hand.
#include <gtest/gtest.h>

#include <vector>

#include "limiter/meter.hpp"
#include "unit/limiter/meter_driver.hpp"

namespace sluice::limiter {
namespace {

TEST(GcraMeter, leaks_evenly_and_takes_all_at_once_as_a_burst) {
  Driver driver(limit_of(LimitKind::gcra, 60));  // one a second
  driver.charge(60);
  EXPECT_EQ(driver.fits_at(1), 1 * s);
  EXPECT_FALSE(driver.at(1 * s - 1).fits(1));
  EXPECT_TRUE(driver.at(1 * s).fits(1));
  EXPECT_FALSE(driver.fits(2));
  EXPECT_EQ(driver.used(), 59U);
  EXPECT_EQ(driver.at(2 * s - 1).used(), 59U);  // a part of a unit counts as one
  EXPECT_EQ(driver.at(2 * s).used(), 58U);
  EXPECT_EQ(driver.at(60 * s).used(), 0U);
  driver.charge(61);
  EXPECT_EQ(driver.fits_at(0), 61 * s);
}

TEST(GcraMeter, loses_nothing_to_rounding) {
  Driver driver(limit_of(LimitKind::gcra, 7, 1'000));
  driver.charge(7);
  for (int64_t ns = 1; ns <= 1'000; ++ns) driver.at(ns * ms);
  EXPECT_EQ(driver.used(), 0U);
}

TEST(GcraMeter, refunds_only_the_part_that_has_not_leaked) {
  Driver driver(limit_of(LimitKind::gcra, 60));
  const Charge held = driver.charge(10, true);
  driver.at(4 * s);
  driver.charge(20);
  EXPECT_EQ(driver.used(), 26U);
  driver.release(10, 10, held);  // 6 of it are still there
  EXPECT_EQ(driver.used(), 20U);
  driver.release(10, 10, held);
  EXPECT_EQ(driver.used(), 20U);
}

TEST(GcraMeter, a_repeated_refund_changes_nothing) {
  Driver driver(limit_of(LimitKind::gcra, 60));
  const Charge first = driver.charge(10, true);
  const Charge second = driver.charge(10, true);
  driver.release(10, 10, first);
  EXPECT_EQ(driver.used(), 10U);
  driver.release(10, 10, second);
  EXPECT_EQ(driver.used(), 0U);
  driver.at(11 * s).charge(30);
  driver.release(10, 10, first);
  driver.release(10, 10, second);
  EXPECT_EQ(driver.used(), 30U);
}

// For many reservations, whatever the order in which they end.
TEST(GcraMeter, refunds_everything_in_any_order) {
  for (const size_t step : {1U, 7U, 99U}) {  // first in first out, scattered, last in first out
    SCOPED_TRACE(step);
    Driver driver(limit_of(LimitKind::gcra, 100 * 500, 1'000'000));  // leaks 50 a second
    std::vector<Charge> held;
    for (int64_t at = 0; at < 100; ++at) {
      held.push_back(driver.at(at * ms).charge(500, true));
    }
    EXPECT_EQ(driver.used(), 49'996U);
    for (size_t count = 0; count < 100; ++count) {
      driver.release(500, 500, held[(count + 1) * step % 100]);
    }
    EXPECT_EQ(driver.open(), 0U);
    EXPECT_EQ(driver.used(), 0U);
  }
}

// The level is that of the other charges alone: whatever had leaked counts as theirs.
TEST(GcraMeter, a_refund_leaves_the_level_of_the_other_charges) {
  Driver driver(limit_of(LimitKind::gcra, 60));
  driver.at(4 * s - 1);  // of a sub-window
  const Charge held = driver.charge(20, true);
  driver.charge(30);
  driver.at(24 * s);
  EXPECT_EQ(driver.used(), 30U);
  driver.release(20, 20, held);
  EXPECT_EQ(driver.used(), 10U);
  EXPECT_EQ(driver.at(34 * s).used(), 0U);
}

// But a charge that had leaked already takes nothing from a later one.
TEST(GcraMeter, a_refund_does_not_reduce_a_later_charge) {
  Driver driver(limit_of(LimitKind::gcra, 60));
  const Charge held = driver.charge(2, true);
  driver.at(3 * s).charge(30);  // in the same sub-window of four seconds
  driver.release(2, 2, held);
  EXPECT_EQ(driver.used(), 30U);
}

// The reported level is above that by at most the leak of a sub-window: here four units.
TEST(GcraMeter, a_refund_shows_at_most_one_sub_window_late) {
  Driver driver(limit_of(LimitKind::gcra, 60));
  driver.at(4 * s).charge(10);
  const Charge held = driver.charge(10, true);
  driver.at(9 * s);  // of 10, 5 are left
  driver.release(10, 10, held);
  EXPECT_GE(driver.used(), 5U);
  EXPECT_LE(driver.used(), 9U);
}

TEST(GcraMeter, refunds_a_charge_from_before_its_amount_changed) {
  for (const uint64_t amount : {30U, 120U}) {
    Driver driver(limit_of(LimitKind::gcra, 60));
    const Charge first = driver.charge(20, true);
    const Charge second = driver.charge(20, true);
    driver.at(1 * s).change_to(limit_of(LimitKind::gcra, amount));
    driver.release(20, 20, second);
    EXPECT_EQ(driver.used(), 20U);
    driver.release(20, 20, first);
    EXPECT_EQ(driver.used(), 0U);
  }
}

// A greater amount leaks faster, but not for the time before the change.
TEST(GcraMeter, a_greater_amount_does_not_leak_in_the_past) {
  Driver driver(limit_of(LimitKind::gcra, 60));
  driver.charge(30);
  const Charge held = driver.charge(1, true);
  driver.at(8 * s).change_to(limit_of(LimitKind::gcra, 600));
  driver.release(1, 1, held);
  EXPECT_GE(driver.used(), 22U);
  EXPECT_LE(driver.used(), 23U);
}

// The time before the change has leaked at the greater one.
TEST(GcraMeter, a_smaller_amount_has_leaked_as_before_in_the_past) {
  Driver driver(limit_of(LimitKind::gcra, 1'000), 100'000 * s);
  driver.charge(600);
  driver.at(100'030 * s);
  EXPECT_EQ(driver.used(), 100U);
  driver.change_to(limit_of(LimitKind::gcra, 500));
  driver.at(100'031 * s);
  const Charge held = driver.charge(300, true);
  driver.at(100'032 * s);
  driver.release(300, 300, held);
  EXPECT_GE(driver.used(), 84U);
  EXPECT_LE(driver.used(), 84U + 2 * 1'000 / 15);
}

// A machine may be up for less than a day.
TEST(GcraMeter, begins_as_steady_as_it_goes_on) {
  for (const int64_t begin : {5 * hour, 500 * hour}) {
    Driver driver(limit_of(LimitKind::gcra, 24'000, 86'400'000), begin);
    driver.charge(10'000);
    driver.at(begin + 5 * hour).change_to(limit_of(LimitKind::gcra, 24'001, 86'400'000));
    const Charge held = driver.charge(5'000, true);
    driver.at(begin + 7 * hour);
    driver.release(5'000, 5'000, held);
    EXPECT_GE(driver.used(), 2'999U);
    EXPECT_LE(driver.used(), 3'000U + 2 * 24'001 / 15);
  }
}

TEST(GcraMeter, bears_many_changes_of_its_amount) {
  Driver driver(limit_of(LimitKind::gcra, 60), 1'000 * s);
  driver.charge(40);
  const Charge held = driver.charge(20, true);
  for (const uint64_t amount : {600U, 6U, 60U}) {
    driver.at(driver.now().ns + 1 * s).change_to(limit_of(LimitKind::gcra, amount));
  }
  const uint64_t before = driver.used();  // leaked: 1 at 60, 10 at 600, 0.1 at 6
  EXPECT_EQ(before, 49U);
  driver.release(20, 20, held);
  EXPECT_GE(driver.used(), 29U);
  EXPECT_LE(driver.used(), 40U);
}

Limit word(Ceiling ceiling) {
  Limit limit = limit_of(LimitKind::gcra, 0);
  limit.ceiling = ceiling;
  return limit;
}

// A bucket without a number has no rate.
TEST(GcraMeter, reports_the_usage_of_a_period_without_a_number) {
  for (const Ceiling ceiling : {Ceiling::unlimited, Ceiling::block}) {
    Driver driver(word(ceiling));
    driver.charge(1'000);
    const Charge held = driver.at(30 * s).charge(500, true);
    EXPECT_EQ(driver.used(), 1'500U);
    EXPECT_EQ(driver.open(), 500U);
    driver.release(500, 100, held);
    EXPECT_EQ(driver.used(), 1'400U);
    EXPECT_EQ(driver.at(64 * s).used(), 400U);
    const int64_t empty_ns = driver.empty_at();
    EXPECT_EQ(driver.at(empty_ns).used(), 0U);
  }
}

// Blocking a subject for a moment does not allow another burst.
TEST(GcraMeter, a_word_in_between_keeps_the_usage) {
  for (const Ceiling ceiling : {Ceiling::unlimited, Ceiling::block}) {
    for (const int64_t wait_ns : {int64_t{0}, 1 * ms, 10 * s}) {
      Driver driver(limit_of(LimitKind::gcra, 60), 1'000 * s);
      driver.charge(60);
      driver.change_to(word(ceiling));
      driver.at(driver.now().ns + wait_ns);
      driver.change_to(limit_of(LimitKind::gcra, 60));
      EXPECT_GE(driver.used(), static_cast<uint64_t>(60 - wait_ns / s));
      EXPECT_LE(driver.used(), 60U);
      EXPECT_FALSE(driver.fits(20));
    }
  }
}

TEST(GcraMeter, usage_without_a_number_fills_the_bucket_at_most) {
  Driver driver(word(Ceiling::unlimited), 1'000 * s);
  driver.at(2'000 * s).charge(30);
  driver.change_to(limit_of(LimitKind::gcra, 60));
  EXPECT_EQ(driver.used(), 30U);
  driver.change_to(word(Ceiling::unlimited));
  driver.at(2'001 * s).charge(1'000'000);
  driver.change_to(limit_of(LimitKind::gcra, 60));
  EXPECT_EQ(driver.used(), 60U);
  EXPECT_TRUE(driver.at(2'061 * s).fits(60));
}

TEST(GcraMeter, refunds_after_its_amount_was_zero_for_a_moment) {
  Driver driver(limit_of(LimitKind::gcra, 1'000, 15'000), 1'000 * s);
  const Charge held = driver.charge(500, true);
  driver.charge(500);
  driver.at(1'008 * s).change_to(limit_of(LimitKind::gcra, 0, 15'000));
  driver.change_to(limit_of(LimitKind::gcra, 1'000, 15'000));
  EXPECT_EQ(driver.used(), 467U);
  driver.release(500, 500, held);
  EXPECT_LE(driver.used(), 2U * 1'000 / 15);
}

TEST(GcraMeter, of_nothing_bears_any_number_of_resets_and_changes) {
  Driver driver(limit_of(LimitKind::gcra, 10));
  for (int round = 0; round < 5; ++round) {
    driver.charge(5);
    driver.change_to(limit_of(LimitKind::gcra, 0));
    driver.meter().reset(driver.now());
    EXPECT_EQ(driver.used(), 0U);
    driver.charge(7);
    driver.change_to(limit_of(LimitKind::gcra, 10));
    EXPECT_EQ(driver.used(), 7U);
    driver.meter().reset(driver.now());
  }
  const Charge held = driver.charge(10, true);
  EXPECT_EQ(driver.empty_at(), driver.now().ns + 60 * s);
  driver.release(10, 10, held);
  EXPECT_EQ(driver.used(), 0U);
}

}  // namespace
}  // namespace sluice::limiter
