// Offsets of zones from the system's files and their rules: against the C library, which reads the
// same files by itself, and against rules written by hand.
#include "limiter/zone.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <random>

namespace sluice::limiter {
namespace {

int64_t utc_s(int year, unsigned month, unsigned day, int hour = 0, int minute = 0) {
  std::tm time{};
  time.tm_year = year - 1900;
  time.tm_mon = static_cast<int>(month) - 1;
  time.tm_mday = static_cast<int>(day);
  time.tm_hour = hour;
  time.tm_min = minute;
  return ::timegm(&time);
}

int64_t offset_at(const Zone& zone, int64_t s) {
  return zone.stretches()[zone.stretch_at(s)].offset_s;
}

int64_t offset_of_c_library(int64_t s) {
  const std::time_t time = s;
  std::tm local{};
  return ::localtime_r(&time, &local) != nullptr ? local.tm_gmtoff : INT64_MIN;
}

class TimeZoneVariable {
 public:
  explicit TimeZoneVariable(const std::string& name) {
    ::setenv("TZ", (":" + name).c_str(), 1);
    ::tzset();
  }
  ~TimeZoneVariable() {
    ::unsetenv("TZ");
    ::tzset();
  }
};

TEST(Zone, is_found_once_and_stays) {
  const Zone* zone = find_zone("America/Los_Angeles");
  ASSERT_NE(zone, nullptr);
  EXPECT_EQ(zone->name(), "America/Los_Angeles");
  EXPECT_EQ(find_zone("America/Los_Angeles"), zone);
}

TEST(Zone, is_not_found_by_a_name_that_is_none) {
  for (const char* name : {"", "Mars/Olympus", "america/los_angeles", "../passwd", "zone.tab",
                           "/usr/share/zoneinfo/UTC", "America"}) {
    EXPECT_EQ(find_zone(name), nullptr) << name;
  }
}

TEST(Zone, utc_never_changes) {
  const Zone* zone = find_zone("UTC");
  ASSERT_NE(zone, nullptr);
  EXPECT_EQ(zone->stretches().size(), 1U);
  EXPECT_EQ(offset_at(*zone, utc_s(1700, 1, 1)), 0);
  EXPECT_EQ(offset_at(*zone, utc_s(2200, 7, 1)), 0);
}

TEST(Zone, has_the_offsets_that_the_c_library_has) {
  std::mt19937_64 random{8};
  for (const char* name :
       {"America/Los_Angeles", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia",
        "Asia/Kathmandu", "Europe/Berlin", "Europe/Dublin", "America/St_Johns", "America/Nuuk",
        "Asia/Gaza", "Africa/Casablanca", "Asia/Pyongyang", "Antarctica/Troll", "America/Santiago",
        "Pacific/Kwajalein", "Asia/Jerusalem", "Pacific/Chatham", "America/Juneau", "Etc/GMT+9"}) {
    const Zone* zone = find_zone(name);
    ASSERT_NE(zone, nullptr) << name;
    const TimeZoneVariable variable{name};
    std::uniform_int_distribution<int64_t> any{utc_s(1678, 1, 1), utc_s(2262, 4, 1)};
    for (int i = 0; i < 20'000; ++i) {
      const int64_t s = any(random);
      ASSERT_EQ(offset_at(*zone, s), offset_of_c_library(s)) << name << " at " << s;
    }
    for (size_t i = 1; i < zone->stretches().size(); ++i) {
      const int64_t change_s = zone->begin_s(i);
      if (change_s > utc_s(2262, 4, 1)) break;
      ASSERT_EQ(offset_at(*zone, change_s), offset_of_c_library(change_s)) << name << change_s;
      ASSERT_EQ(offset_at(*zone, change_s - 1), offset_of_c_library(change_s - 1))
          << name << " before " << change_s;
    }
  }
}

TEST(Zone, rule_of_the_north_and_of_the_south) {
  const std::vector<OffsetChange> berlin{
      {.begin_s = utc_s(2050, 3, 27, 1), .offset_s = 7'200},
      {.begin_s = utc_s(2050, 10, 30, 1), .offset_s = 3'600},
  };
  EXPECT_EQ(changes_of_rule("CET-1CEST,M3.5.0,M10.5.0/3", 2050, 2050), berlin);
  const std::vector<OffsetChange> lord_howe{
      {.begin_s = utc_s(2050, 4, 2, 15), .offset_s = 37'800},
      {.begin_s = utc_s(2050, 10, 1, 15, 30), .offset_s = 39'600},
  };
  EXPECT_EQ(changes_of_rule("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 2050, 2050), lord_howe);
}

TEST(Zone, rule_with_a_time_on_another_day) {
  // The last Sunday less an hour; the fourth Thursday and 50 hours.
  const auto nuuk = changes_of_rule("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2050, 2050);
  ASSERT_EQ(nuuk.size(), 2U);
  EXPECT_EQ(nuuk[0].begin_s, utc_s(2050, 3, 27, 1));
  const auto gaza = changes_of_rule("EET-2EEST,M3.4.4/50,M10.4.4/50", 2050, 2050);
  ASSERT_EQ(gaza.size(), 2U);
  EXPECT_EQ(gaza[0].begin_s, utc_s(2050, 3, 26, 0));
}

TEST(Zone, rule_by_the_day_of_the_year) {
  // J60 is always March 1st; 59 is it only when February has 28 days.
  const auto counted = [](int year) {
    return changes_of_rule("AAA0BBB,J60/0,300/0", year, year)[0].begin_s;
  };
  EXPECT_EQ(counted(2023), utc_s(2023, 3, 1));
  EXPECT_EQ(counted(2024), utc_s(2024, 3, 1));
  EXPECT_EQ(changes_of_rule("AAA0BBB,59/0,300/0", 2023, 2023)[0].begin_s, utc_s(2023, 3, 1));
  EXPECT_EQ(changes_of_rule("AAA0BBB,59/0,300/0", 2024, 2024)[0].begin_s, utc_s(2024, 2, 29));
}

TEST(Zone, rule_without_changes_has_none) {
  for (const char* rule : {"", "UTC0", "<+0545>-5:45", "PST8PDT"}) {
    EXPECT_TRUE(changes_of_rule(rule, 2050, 2051).empty()) << rule;
  }
}

TEST(Zone, no_rule_makes_no_changes) {
  for (const char* rule :
       {"CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0", "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,M3.5.0,M10.5.0/3 ", "CET-1CEST,M3.5.0,M10.5.0/168",
        "C-1CEST,M3.5.0,M10.5.0", "<CET-1CEST,M3.5.0,M10.5.0", "CET-1CEST,J366,J1", "CET-1CEST,x,y",
        ",,,", "TZif2"}) {
    EXPECT_TRUE(changes_of_rule(rule, 2050, 2051).empty()) << rule;
  }
}

TEST(Zone, changes_of_the_name_alone_are_none) {
  const Zone zone{"", {{.begin_s = 0, .offset_s = 0}, {.begin_s = 10, .offset_s = 0}}};
  EXPECT_EQ(zone.stretches().size(), 1U);
}

TEST(Zone, first_instant_of_a_local_time_that_is_skipped_or_comes_twice) {
  // An hour forward at 1000, back at 9000.
  const Zone zone{"",
                  {{.begin_s = 0, .offset_s = 0},
                   {.begin_s = 1'000, .offset_s = 3'600},
                   {.begin_s = 9'000, .offset_s = 0}}};
  EXPECT_EQ(zone.first_at(999), 999);
  EXPECT_EQ(zone.first_at(1'000), 1'000);
  EXPECT_EQ(zone.first_at(3'000), 1'000);  // skipped
  EXPECT_EQ(zone.first_at(4'601), 1'001);
  EXPECT_EQ(zone.first_at(10'000), 6'400);   // comes twice
  EXPECT_EQ(zone.first_at(12'600), 12'600);  // clocks were put back just before they showed it
  EXPECT_EQ(zone.latest_local(8'999), 12'599);
  EXPECT_EQ(zone.latest_local(9'000), 12'599);
  EXPECT_EQ(zone.latest_local(12'600), 12'600);
}

}  // namespace
}  // namespace sluice::limiter
