// Calendar periods: days and hours at transitions that are on record, and, for any zone and any
// moment, that periods contain it, follow each other, and begin and end with the clock on the wall.
#include "limiter/calendar.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "base/time.hpp"
#include "support/allocation_guard.hpp"

namespace sluice::limiter {
namespace {

using api::CalendarUnit;
using base::ns_per_s;

constexpr int64_t hour_ns = 3'600 * ns_per_s;

int64_t utc(int year, unsigned month, unsigned day, int64_t hour = 0, int64_t minute = 0,
            int64_t second = 0) {
  using namespace std::chrono;
  const sys_days date{std::chrono::year{year} / std::chrono::month{month} / std::chrono::day{day}};
  return (date.time_since_epoch().count() * 86'400 + hour * 3'600 + minute * 60 + second) *
         ns_per_s;
}

Period period(const char* zone_name, CalendarUnit unit, int64_t wall_ns) {
  const Zone* zone = find_zone(zone_name);
  EXPECT_NE(zone, nullptr) << zone_name << ": is tzdata installed?";
  return zone == nullptr ? Period{} : period_of(*zone, unit, wall_ns);
}

int64_t hours_of(const Period& period) {
  return (period.end_ns - period.begin_ns) / hour_ns;
}

TEST(Calendar, utc_periods_contain_their_first_instant_and_not_their_last) {
  const int64_t at = utc(2024, 2, 29, 13, 45, 59) + 999'999'999;
  EXPECT_EQ(period("UTC", CalendarUnit::hour, at),
            (Period{.begin_ns = utc(2024, 2, 29, 13), .end_ns = utc(2024, 2, 29, 14)}));
  const Period day{.begin_ns = utc(2024, 2, 29), .end_ns = utc(2024, 3, 1)};
  EXPECT_EQ(period("UTC", CalendarUnit::day, at), day);
  EXPECT_EQ(period("UTC", CalendarUnit::day, day.begin_ns), day);
  EXPECT_EQ(period("UTC", CalendarUnit::day, day.end_ns - 1), day);
  EXPECT_EQ(period("UTC", CalendarUnit::day, day.end_ns).begin_ns, day.end_ns);
}

TEST(Calendar, weeks_begin_on_monday) {
  const Period week{.begin_ns = utc(2024, 12, 30), .end_ns = utc(2025, 1, 6)};
  EXPECT_EQ(period("UTC", CalendarUnit::week, utc(2024, 12, 30)), week);
  EXPECT_EQ(period("UTC", CalendarUnit::week, utc(2025, 1, 5, 23, 59, 59)), week);
  EXPECT_EQ(period("UTC", CalendarUnit::week, utc(1969, 12, 31)),
            (Period{.begin_ns = utc(1969, 12, 29), .end_ns = utc(1970, 1, 5)}));
}

TEST(Calendar, months_have_their_lengths) {
  EXPECT_EQ(hours_of(period("UTC", CalendarUnit::month, utc(2024, 2, 10))), 29 * 24);
  EXPECT_EQ(hours_of(period("UTC", CalendarUnit::month, utc(2023, 2, 10))), 28 * 24);
  EXPECT_EQ(hours_of(period("UTC", CalendarUnit::month, utc(2100, 2, 10))), 28 * 24);
  EXPECT_EQ(hours_of(period("UTC", CalendarUnit::month, utc(2000, 2, 10))), 29 * 24);
  EXPECT_EQ(period("UTC", CalendarUnit::month, utc(2023, 12, 31, 23)),
            (Period{.begin_ns = utc(2023, 12, 1), .end_ns = utc(2024, 1, 1)}));
  // March has an hour less and November one more where clocks change.
  EXPECT_EQ(hours_of(period("America/Los_Angeles", CalendarUnit::month, utc(2025, 3, 20))),
            31 * 24 - 1);
  EXPECT_EQ(hours_of(period("America/Los_Angeles", CalendarUnit::month, utc(2025, 11, 20))),
            30 * 24 + 1);
}

TEST(Calendar, day_of_23_hours_and_day_of_25) {
  EXPECT_EQ(period("America/Los_Angeles", CalendarUnit::day, utc(2025, 3, 9, 20)),
            (Period{.begin_ns = utc(2025, 3, 9, 8), .end_ns = utc(2025, 3, 10, 7)}));
  EXPECT_EQ(period("America/Los_Angeles", CalendarUnit::day, utc(2025, 11, 2, 20)),
            (Period{.begin_ns = utc(2025, 11, 2, 7), .end_ns = utc(2025, 11, 3, 8)}));
}

TEST(Calendar, days_change_their_length_after_2037_too) {
  EXPECT_EQ(period("America/Los_Angeles", CalendarUnit::day, utc(2050, 3, 13, 20)),
            (Period{.begin_ns = utc(2050, 3, 13, 8), .end_ns = utc(2050, 3, 14, 7)}));
  EXPECT_EQ(hours_of(period("America/Los_Angeles", CalendarUnit::day, utc(2260, 11, 4, 20))), 25);
}

TEST(Calendar, hour_that_comes_twice_is_two_periods) {
  const auto hour = [](int64_t at) {
    return period("America/Los_Angeles", CalendarUnit::hour, at);
  };
  const Period summer{.begin_ns = utc(2025, 11, 2, 8), .end_ns = utc(2025, 11, 2, 9)};
  const Period winter{.begin_ns = utc(2025, 11, 2, 9), .end_ns = utc(2025, 11, 2, 10)};
  EXPECT_EQ(hour(utc(2025, 11, 2, 8, 59, 59)), summer);  // 01:59:59
  EXPECT_EQ(hour(utc(2025, 11, 2, 9)), winter);          // 01:00:00
}

TEST(Calendar, hour_that_is_skipped_is_none) {
  const Period one{.begin_ns = utc(2025, 3, 9, 9), .end_ns = utc(2025, 3, 9, 10)};
  const Period three{.begin_ns = utc(2025, 3, 9, 10), .end_ns = utc(2025, 3, 9, 11)};
  EXPECT_EQ(period("America/Los_Angeles", CalendarUnit::hour, one.end_ns - 1), one);
  EXPECT_EQ(period("America/Los_Angeles", CalendarUnit::hour, three.begin_ns), three);
}

TEST(Calendar, half_an_hour_is_skipped_and_comes_twice_on_lord_howe) {
  const auto hour = [](int64_t at) {
    return period("Australia/Lord_Howe", CalendarUnit::hour, at);
  };
  // 2025-04-06, 02:00 +11 is 01:30 +10:30.
  EXPECT_EQ(hour(utc(2025, 4, 5, 14, 59)),
            (Period{.begin_ns = utc(2025, 4, 5, 14), .end_ns = utc(2025, 4, 5, 15)}));
  EXPECT_EQ(hour(utc(2025, 4, 5, 15)),
            (Period{.begin_ns = utc(2025, 4, 5, 15), .end_ns = utc(2025, 4, 5, 15, 30)}));
  EXPECT_EQ(period("Australia/Lord_Howe", CalendarUnit::day, utc(2025, 4, 5, 20)),
            (Period{.begin_ns = utc(2025, 4, 5, 13), .end_ns = utc(2025, 4, 6, 13, 30)}));
  // 2025-10-05, 02:00 +10:30 is 02:30 +11.
  EXPECT_EQ(hour(utc(2025, 10, 4, 15, 30)),
            (Period{.begin_ns = utc(2025, 10, 4, 15, 30), .end_ns = utc(2025, 10, 4, 16)}));
}

TEST(Calendar, midnight_that_does_not_exist) {
  // Sao Paulo, 2018-11-04: 00:00 -03 is 01:00 -02.
  const Period day = period("America/Sao_Paulo", CalendarUnit::day, utc(2018, 11, 4, 12));
  EXPECT_EQ(day, (Period{.begin_ns = utc(2018, 11, 4, 3), .end_ns = utc(2018, 11, 5, 2)}));
  EXPECT_EQ(hours_of(day), 23);
}

TEST(Calendar, last_hour_of_a_day_that_comes_twice) {
  // Sao Paulo, 2018-02-18: 00:00 -02 is 23:00 -03 of the day before, which has 25 hours.
  const Period saturday{.begin_ns = utc(2018, 2, 17, 2), .end_ns = utc(2018, 2, 18, 3)};
  EXPECT_EQ(period("America/Sao_Paulo", CalendarUnit::day, utc(2018, 2, 18, 1, 59, 59)), saturday);
  EXPECT_EQ(period("America/Sao_Paulo", CalendarUnit::day, utc(2018, 2, 18, 2)), saturday);
  EXPECT_EQ(period("America/Sao_Paulo", CalendarUnit::day, utc(2018, 2, 18, 3)).begin_ns,
            saturday.end_ns);
}

TEST(Calendar, midnight_that_comes_twice_begins_one_day) {
  // St. John's, 2010-11-07: 00:01 -02:30 is 23:01 -03:30 of the day before.
  const Period sunday{.begin_ns = utc(2010, 11, 7, 2, 30), .end_ns = utc(2010, 11, 8, 3, 30)};
  EXPECT_EQ(period("America/St_Johns", CalendarUnit::day, utc(2010, 11, 7, 2, 30, 30)), sunday);
  EXPECT_EQ(period("America/St_Johns", CalendarUnit::day, utc(2010, 11, 7, 2, 31)), sunday);
  EXPECT_EQ(period("America/St_Johns", CalendarUnit::day, utc(2010, 11, 7, 2, 29)).end_ns,
            sunday.begin_ns);
}

TEST(Calendar, day_that_is_skipped_has_no_period) {
  // Apia, 2011-12-29 24:00 -10 is 2011-12-31 00:00 +14.
  const int64_t change = utc(2011, 12, 30, 10);
  EXPECT_EQ(period("Pacific/Apia", CalendarUnit::day, change - 1),
            (Period{.begin_ns = utc(2011, 12, 29, 10), .end_ns = change}));
  EXPECT_EQ(period("Pacific/Apia", CalendarUnit::day, change),
            (Period{.begin_ns = change, .end_ns = utc(2011, 12, 31, 10)}));
  EXPECT_EQ(hours_of(period("Pacific/Apia", CalendarUnit::week, change)), 6 * 24);
}

TEST(Calendar, day_that_comes_twice_is_one_of_48_hours) {
  // Kwajalein moved to the other side of the date line and back; Juneau in 1867 had a day twice.
  const Zone zone{
      "",
      {{.begin_s = 0, .offset_s = 12 * 3'600}, {.begin_s = 12 * 3'600, .offset_s = -12 * 3'600}}};
  const Period day = period_of(zone, CalendarUnit::day, 0);
  EXPECT_EQ(day.begin_ns, -12 * hour_ns);
  EXPECT_EQ(day.end_ns, 36 * hour_ns);
  EXPECT_EQ(period_of(zone, CalendarUnit::day, 20 * hour_ns), day);
}

TEST(Calendar, zone_that_changed_its_offset_for_good) {
  // Kathmandu, 1986-01-01 00:00 +05:30 is 00:15 +05:45.
  EXPECT_EQ(period("Asia/Kathmandu", CalendarUnit::day, utc(1985, 12, 31, 18, 30)),
            (Period{.begin_ns = utc(1985, 12, 31, 18, 30), .end_ns = utc(1986, 1, 1, 18, 15)}));
  EXPECT_EQ(period("Asia/Kathmandu", CalendarUnit::hour, utc(2025, 6, 1, 12, 30)),
            (Period{.begin_ns = utc(2025, 6, 1, 12, 15), .end_ns = utc(2025, 6, 1, 13, 15)}));
}

TEST(Calendar, times_before_1970) {
  EXPECT_EQ(period("America/Los_Angeles", CalendarUnit::day, utc(1955, 7, 4, 12)),
            (Period{.begin_ns = utc(1955, 7, 4, 7), .end_ns = utc(1955, 7, 5, 7)}));
  EXPECT_EQ(period("UTC", CalendarUnit::hour, -1), (Period{.begin_ns = -hour_ns, .end_ns = 0}));
}

TEST(Calendar, ends_of_time_are_no_trap) {
  for (const char* name : {"UTC", "America/Los_Angeles", "Pacific/Apia"}) {
    for (const auto unit :
         {CalendarUnit::hour, CalendarUnit::day, CalendarUnit::week, CalendarUnit::month}) {
      const Period first = period(name, unit, INT64_MIN);
      const Period last = period(name, unit, INT64_MAX);
      EXPECT_EQ(first.begin_ns, INT64_MIN);
      EXPECT_GT(first.end_ns, INT64_MIN);
      EXPECT_LT(last.begin_ns, INT64_MAX);
      EXPECT_EQ(last.end_ns, INT64_MAX);
    }
  }
}

// The hour, day, week or month on the zone's clocks, as a number.
int64_t label_of(const Zone& zone, CalendarUnit unit, int64_t wall_ns) {
  using namespace std::chrono;
  const int64_t s = floor<seconds>(nanoseconds{wall_ns}).count();
  const seconds local{s + zone.stretches()[zone.stretch_at(s)].offset_s};
  const sys_days day{floor<days>(local)};
  if (unit == CalendarUnit::hour) return floor<hours>(local).count();
  if (unit == CalendarUnit::day) return day.time_since_epoch().count();
  if (unit == CalendarUnit::week) return floor<weeks>(local - days{4}).count();
  const year_month_day date{day};
  return int{date.year()} * 12 + static_cast<int>(unsigned{date.month()});
}

// Walks from a moment through the periods that follow: each contains its moment, the next begins
// where it ends, and clocks show its label all the time, unless they are put back.
void walk(const Zone& zone, CalendarUnit unit, int64_t wall_ns) {
  Period at = period_of(zone, unit, wall_ns);
  ASSERT_LE(at.begin_ns, wall_ns);
  ASSERT_LT(wall_ns, at.end_ns);
  for (int steps = 0; steps < 20; ++steps) {
    ASSERT_EQ(period_of(zone, unit, at.begin_ns), at) << zone.name() << " " << wall_ns;
    ASSERT_EQ(period_of(zone, unit, at.end_ns - 1), at) << zone.name() << " " << wall_ns;
    const int64_t label = label_of(zone, unit, at.end_ns - 1);
    const Period next = period_of(zone, unit, at.end_ns);
    ASSERT_EQ(next.begin_ns, at.end_ns) << zone.name() << " " << wall_ns;
    if (unit != CalendarUnit::hour) {
      ASSERT_GT(label_of(zone, unit, next.begin_ns), label) << zone.name() << " " << wall_ns;
    } else {
      ASSERT_LE(at.end_ns - at.begin_ns, hour_ns);
    }
    at = next;
  }
}

TEST(Calendar, periods_of_any_zone_follow_each_other) {
  std::mt19937_64 random{2026};
  for (const char* name : {"UTC", "America/Los_Angeles", "America/Sao_Paulo", "Australia/Lord_Howe",
                           "Pacific/Apia", "Asia/Kathmandu", "America/St_Johns", "Asia/Gaza",
                           "Africa/Casablanca", "America/Juneau", "Asia/Manila"}) {
    const Zone* zone = find_zone(name);
    ASSERT_NE(zone, nullptr);
    for (const auto unit :
         {CalendarUnit::hour, CalendarUnit::day, CalendarUnit::week, CalendarUnit::month}) {
      std::uniform_int_distribution<int64_t> any{utc(1680, 1, 1), utc(2260, 1, 1)};
      for (int i = 0; i < 100; ++i) {
        walk(*zone, unit, any(random));
        if (HasFatalFailure()) return;
      }
      for (size_t i = 1; i + 1 < zone->stretches().size(); ++i) {
        if (zone->begin_s(i) > utc(2260, 1, 1) / ns_per_s) break;
        walk(*zone, unit, zone->begin_s(i) * ns_per_s - 3 * hour_ns);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Calendar, looking_a_period_up_allocates_nothing) {
  const Zone* zone = find_zone("America/Los_Angeles");
  ASSERT_NE(zone, nullptr);
  Period last;
  {
    const support::ForbidAllocation forbidden;
    for (const auto unit :
         {CalendarUnit::hour, CalendarUnit::day, CalendarUnit::week, CalendarUnit::month}) {
      last = period_of(*zone, unit, utc(2025, 3, 9, 20));
    }
  }
  EXPECT_EQ(last.begin_ns, utc(2025, 3, 1, 8));
}

}  // namespace
}  // namespace sluice::limiter
