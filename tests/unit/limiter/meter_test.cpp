// Goal: each kind of limit counts, forgets and takes back to the nanosecond, as its header says.
// Method: one meter by hand, at times around the edges of its period.
#include "limiter/meter.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "limiter/steady_wall.hpp"

namespace sluice::limiter {
namespace {

using api::Ceiling;
using api::Limit;
using api::LimitKind;
using api::Metric;

constexpr int64_t ms = base::ns_per_ms;
constexpr int64_t s = base::ns_per_s;
constexpr int64_t hour = 3'600 * s;
constexpr int64_t day = 24 * hour;

Limit limit_of(LimitKind kind, uint64_t amount, int64_t period_ms = 60'000) {
  return {.name = "l",
          .metric = Metric::tokens,
          .kind = kind,
          .amount = amount,
          .period_ms = period_ms};
}

Limit calendar(api::CalendarUnit unit, uint64_t amount, std::string zone = "UTC") {
  Limit limit = limit_of(LimitKind::calendar, amount, 0);
  limit.unit = unit;
  limit.time_zone = std::move(zone);
  return limit;
}

uint32_t words_count(const MeterShape& shape) {
  return head_words(shape) + ring_words(shape);
}

// As the only limit of its subject.
MeterShape shape_of(const Limit& limit) {
  MeterShape shape = compile(limit);
  shape.ring_word = static_cast<uint16_t>(head_words(shape));
  return shape;
}

// One subject's usage of one limit; each call has an order of its own.
class Driver {
 public:
  explicit Driver(const Limit& limit, int64_t ns = 0, int64_t wall_ns = 0)
      : shape_(shape_of(limit)), words_(words_count(shape_)) {
    now_ = {.ns = ns, .wall_ns = wall_ns, .order = 1};
    meter().begin(now_);
  }

  Meter meter() { return {shape_, words_.data()}; }
  const MeterShape& shape() const { return shape_; }
  const Moment& now() const { return now_; }

  Driver& at(int64_t ns, int64_t wall_ns) {
    now_ = {.ns = ns, .wall_ns = wall_ns, .order = now_.order + 1};
    meter().roll(now_);
    meter().check();
    return *this;
  }
  Driver& at(int64_t ns) { return at(ns, now_.wall_ns + (ns - now_.ns)); }
  Driver& wall_at(int64_t wall_ns) { return at(now_.ns + (wall_ns - now_.wall_ns), wall_ns); }

  Charge charge(uint64_t amount, bool open = false) {
    meter().charge(amount, open, now_);
    return {.ns = now_.ns, .order = now_.order};
  }
  // A reservation is settled with less than it was charged.
  void give_back(uint64_t charged, uint64_t back, const Charge& charge) {
    meter().close(charged, back, charge, now_);
    meter().check();
  }
  uint64_t used() { return meter().used(); }
  uint64_t open() { return meter().open(); }
  bool fits(uint64_t amount) { return meter().fits(amount); }
  int64_t fits_at(uint64_t amount, bool all_refunded = false) {
    return meter().fits_at_ns(amount, all_refunded, now_);
  }
  int64_t empty_at() { return meter().empty_at_ns(now_); }

  void change_to(const Limit& limit) {
    const MeterShape before = shape_;
    std::vector<uint64_t> words = words_;
    shape_ = shape_of(limit);
    meter().begin(now_);
    meter().take_over(before, words.data(), now_);
  }

 private:
  MeterShape shape_;
  std::vector<uint64_t> words_;
  Moment now_;
};

// Every kind that counts over time, with the same amount.
std::vector<Limit> all_kinds(uint64_t amount) {
  return {limit_of(LimitKind::fixed, amount),        limit_of(LimitKind::sliding, amount),
          limit_of(LimitKind::gcra, amount),         limit_of(LimitKind::anchored_day, amount),
          limit_of(LimitKind::rolling_day, amount),  calendar(api::CalendarUnit::hour, amount),
          calendar(api::CalendarUnit::month, amount)};
}

// ------------------------------------------------------------------------------- what all do

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

TEST(Meter, what_is_above_the_amount_shuts_out_nothing_too) {
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
    driver.give_back(limits::amount_max, limits::amount_max, last);
    EXPECT_LE(driver.used(), limits::amount_max);
    driver.charge(2 * limits::amount_max);
    EXPECT_EQ(driver.used(), limits::amount_max);
  }
}

TEST(Meter, tells_what_is_open_apart) {
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

TEST(Meter, a_reset_forgets_all_but_what_is_open) {
  for (const Limit& limit : all_kinds(100)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    Driver driver(limit);
    driver.charge(70);
    const Charge held = driver.charge(20, true);
    driver.meter().reset(driver.now());
    driver.meter().check();
    EXPECT_EQ(driver.used(), 20U);
    EXPECT_EQ(driver.open(), 20U);
    driver.give_back(20, 20, held);
    EXPECT_EQ(driver.open(), 0U);
    EXPECT_EQ(driver.used(), 0U);
  }
}

TEST(Meter, with_all_that_is_open_refunded_it_fits_earlier) {
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

// To wait until fits_at is enough, and one nanosecond less is not.
TEST(Meter, fits_at_the_very_nanosecond_that_it_tells) {
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

TEST(Meter, is_empty_at_the_very_nanosecond_that_it_tells) {
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

TEST(Meter, a_refund_of_what_time_has_forgotten_goes_nowhere) {
  for (const Limit& limit : all_kinds(100)) {
    SCOPED_TRACE(api::kind_name(limit.kind));
    Driver driver(limit);
    const Charge held = driver.charge(60, true);
    driver.at(32 * day);
    driver.charge(80);
    driver.give_back(60, 60, held);
    EXPECT_EQ(driver.used(), 80U);
    EXPECT_EQ(driver.open(), 0U);
  }
}

TEST(Meter, goes_on_with_its_usage_when_its_amount_changes) {
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
    driver.give_back(30, 30, held);
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

TEST(FixedMeter, takes_back_only_what_was_charged_in_this_window) {
  Driver driver(limit_of(LimitKind::fixed, 100));
  const Charge old = driver.at(10 * s).charge(50, true);
  driver.at(70 * s - 1).give_back(0, 0, {});
  const Charge recent = driver.at(70 * s).charge(60, true);
  driver.give_back(50, 50, old);
  EXPECT_EQ(driver.used(), 60U);
  EXPECT_EQ(driver.open(), 60U);
  driver.give_back(60, 45, recent);
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

TEST(SlidingMeter, gives_back_to_the_sub_window_that_was_charged) {
  Driver driver(limit_of(LimitKind::sliding, 100));
  const Charge held = driver.at(1 * s).charge(40, true);
  driver.at(30 * s).charge(60);
  driver.give_back(40, 25, held);
  EXPECT_EQ(driver.used(), 75U);
  // What is left of the first goes with the first: 15, and not what the refund was taken from.
  EXPECT_EQ(driver.at(64 * s).used(), 60U);
  EXPECT_EQ(driver.at(92 * s).used(), 0U);
}

TEST(SlidingMeter, gives_back_what_is_on_its_last_nanosecond) {
  Driver driver(limit_of(LimitKind::sliding, 100));
  const Charge held = driver.at(1 * s).charge(40, true);
  driver.at(64 * s - 1).give_back(40, 40, held);
  EXPECT_EQ(driver.used(), 0U);
  Driver late(limit_of(LimitKind::sliding, 100));
  const Charge gone = late.at(1 * s).charge(40, true);
  late.at(64 * s).charge(40);
  late.give_back(40, 40, gone);
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

// -------------------------------------------------------------------------------------- gcra

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

TEST(GcraMeter, gives_back_only_what_has_not_leaked) {
  Driver driver(limit_of(LimitKind::gcra, 60));
  const Charge held = driver.charge(10, true);
  driver.at(4 * s);
  driver.charge(20);
  EXPECT_EQ(driver.used(), 26U);
  driver.give_back(10, 10, held);  // 6 of it are still there
  EXPECT_EQ(driver.used(), 20U);
  driver.give_back(10, 10, held);
  EXPECT_EQ(driver.used(), 20U);
}

TEST(GcraMeter, a_refund_does_not_bring_back_what_another_one_gave) {
  Driver driver(limit_of(LimitKind::gcra, 60));
  const Charge first = driver.charge(10, true);
  const Charge second = driver.charge(10, true);
  driver.give_back(10, 10, first);
  EXPECT_EQ(driver.used(), 10U);
  driver.give_back(10, 10, second);
  EXPECT_EQ(driver.used(), 0U);
  driver.at(11 * s).charge(30);
  driver.give_back(10, 10, first);
  driver.give_back(10, 10, second);
  EXPECT_EQ(driver.used(), 30U);
}

// However many there are, and in which order they end.
TEST(GcraMeter, gives_all_back_whoever_ends_first) {
  for (const size_t step : {1U, 7U, 99U}) {  // first in first out, scattered, last in first out
    SCOPED_TRACE(step);
    Driver driver(limit_of(LimitKind::gcra, 100 * 500, 1'000'000));  // leaks 50 a second
    std::vector<Charge> held;
    for (int64_t at = 0; at < 100; ++at) {
      held.push_back(driver.at(at * ms).charge(500, true));
    }
    EXPECT_EQ(driver.used(), 49'996U);
    for (size_t count = 0; count < 100; ++count) {
      driver.give_back(500, 500, held[(count + 1) * step % 100]);
    }
    EXPECT_EQ(driver.open(), 0U);
    EXPECT_EQ(driver.used(), 0U);
  }
}

// The rest is where it would be alone: what leaked of the one that comes back leaked of the others.
TEST(GcraMeter, what_comes_back_is_as_if_it_had_never_been_charged) {
  Driver driver(limit_of(LimitKind::gcra, 60));
  driver.at(4 * s - 1);  // of a sub-window
  const Charge held = driver.charge(20, true);
  driver.charge(30);
  driver.at(24 * s);
  EXPECT_EQ(driver.used(), 30U);
  driver.give_back(20, 20, held);
  EXPECT_EQ(driver.used(), 10U);
  EXPECT_EQ(driver.at(34 * s).used(), 0U);
}

// But not of what was charged when it had leaked already.
TEST(GcraMeter, never_takes_a_later_charge_for_the_one_that_comes_back) {
  Driver driver(limit_of(LimitKind::gcra, 60));
  const Charge held = driver.charge(2, true);
  driver.at(3 * s).charge(30);  // in the same sub-window of four seconds
  driver.give_back(2, 2, held);
  EXPECT_EQ(driver.used(), 30U);
}

// What is told is above that by no more than leaks in a sub-window: here four units.
TEST(GcraMeter, a_refund_is_told_a_sub_window_late_at_most) {
  Driver driver(limit_of(LimitKind::gcra, 60));
  driver.at(4 * s).charge(10);
  const Charge held = driver.charge(10, true);
  driver.at(9 * s);  // of 10, 5 are left
  driver.give_back(10, 10, held);
  EXPECT_GE(driver.used(), 5U);
  EXPECT_LE(driver.used(), 9U);
}

TEST(GcraMeter, gives_back_what_was_charged_before_its_amount_changed) {
  for (const uint64_t amount : {30U, 120U}) {
    Driver driver(limit_of(LimitKind::gcra, 60));
    const Charge first = driver.charge(20, true);
    const Charge second = driver.charge(20, true);
    driver.at(1 * s).change_to(limit_of(LimitKind::gcra, amount));
    driver.give_back(20, 20, second);
    EXPECT_EQ(driver.used(), 20U);
    driver.give_back(20, 20, first);
    EXPECT_EQ(driver.used(), 0U);
  }
}

// A greater amount leaks faster, but not what is behind us.
TEST(GcraMeter, a_greater_amount_does_not_leak_in_the_past) {
  Driver driver(limit_of(LimitKind::gcra, 60));
  driver.charge(30);
  const Charge held = driver.charge(1, true);
  driver.at(8 * s).change_to(limit_of(LimitKind::gcra, 600));
  driver.give_back(1, 1, held);
  EXPECT_GE(driver.used(), 22U);
  EXPECT_LE(driver.used(), 23U);
}

// A bucket without a number has no rate: it would never be empty again.
TEST(GcraMeter, without_a_number_forgets_at_once) {
  const Limit limit = limit_of(LimitKind::gcra, 10);
  for (const Ceiling ceiling : {Ceiling::unlimited, Ceiling::block}) {
    Limit word = limit_of(LimitKind::gcra, 0);
    word.ceiling = ceiling;
    Driver driver(word);
    driver.charge(1'000'000);
    EXPECT_LE(driver.empty_at(), driver.now().ns + 1);
    EXPECT_EQ(driver.at(1).used(), 0U);
    driver.change_to(limit);
    EXPECT_TRUE(driver.fits(10));
  }
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
  driver.give_back(10, 10, held);
  EXPECT_EQ(driver.used(), 0U);
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

TEST(AnchoredDayMeter, its_period_is_a_day_whatever_was_said) {
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

TEST(CalendarMeter, a_month_ends_where_the_calendar_says) {
  constexpr int64_t february_1_2024 = 1'706'745'600 * s;
  Driver driver(calendar(api::CalendarUnit::month, 10), 0, february_1_2024);
  driver.charge(10);
  EXPECT_FALSE(driver.wall_at(february_1_2024 + 29 * day - 1).fits(1));
  EXPECT_TRUE(driver.wall_at(february_1_2024 + 29 * day).fits(10));
}

TEST(CalendarMeter, tells_its_end_in_monotonic_time) {
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
  driver.give_back(10, 10, old);  // its period stays closed
  EXPECT_EQ(driver.used(), 10U);
  EXPECT_FALSE(driver.at(10 * s, at(10 * s, 9 * hour + 8 * s)).fits(1));
}

// ------------------------------------------------------------------------------------ shares

TEST(MeterShare, is_what_the_metric_counts) {
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

TEST(SlotMeter, has_no_words_of_its_own) {
  Driver driver({.name = "slots",
                 .metric = Metric::concurrency,
                 .kind = LimitKind::slots,
                 .amount = 2,
                 .time_zone = {}});
  EXPECT_EQ(words_count(driver.shape()), 0U);
  const Charge held = driver.charge(1, true);
  driver.give_back(1, 1, held);
  EXPECT_EQ(driver.used(), 0U);
  EXPECT_EQ(driver.empty_at(), driver.now().ns);
}

}  // namespace
}  // namespace sluice::limiter
