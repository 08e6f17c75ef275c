// Goal:   leases, periods and waits last their whole life at the greatest values: to the last
//         millisecond, and no longer.
// Method: a store with a clock of the test's own, which goes hour by hour, so that timers move
//         through all levels of the wheel; and in one step.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/limits.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::LimitKind;
using api::Metric;
using api::QuotaCall;
using api::QuotaCode;

constexpr int64_t hour_ms = 3'600'000;
constexpr int64_t day_ms = 24 * hour_ms;
constexpr int64_t year_ms = limits::window_ms_max;
constexpr uint32_t longest_lease_ms = limits::lifetime_ms_max;

class LongestQuotaTimes : public testing::TestWithParam<int64_t> {
 protected:
  // Goes on in steps of the parameter.
  static void advance_ms(StoreDriver& driver, int64_t ms) {
    while (ms > 0) {
      const int64_t step = std::min(ms, GetParam());
      driver.advance_ms(step);
      ms -= step;
    }
  }
  void advance_ms(int64_t ms) { advance_ms(driver_, ms); }
  uint64_t lease() {
    QuotaCall call = asking({});
    call.lifetime_ms = longest_lease_ms;
    const api::QuotaAnswer answer = driver_.reserve({"m"}, call);
    EXPECT_EQ(answer.code, QuotaCode::ok);
    return answer.reservation;
  }
  uint32_t open() { return driver_.row("m").open_reservations; }

  StoreDriver driver_;
};

TEST_P(LongestQuotaTimes, a_lease_of_30_days_ends_after_30_days) {
  driver_.put("m", {slots(1)});
  lease();
  advance_ms(longest_lease_ms - 1);
  EXPECT_EQ(open(), 1U);
  EXPECT_EQ(driver_.used("m", "slots"), 1U);
  advance_ms(1);
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(driver_.used("m", "slots"), 0U);
}

TEST_P(LongestQuotaTimes, a_lease_that_is_extended_at_its_last_millisecond_lives_on) {
  driver_.put("m", {slots(1)});
  const uint64_t id = lease();
  for (int month = 0; month < 3; ++month) {
    advance_ms(longest_lease_ms - 1);
    ASSERT_EQ(driver_.extend(id, longest_lease_ms).code, QuotaCode::ok) << month;
  }
  advance_ms(longest_lease_ms - 1);
  EXPECT_EQ(open(), 1U);
  advance_ms(1);
  EXPECT_EQ(open(), 0U);
  EXPECT_NE(driver_.extend(id, longest_lease_ms).code, QuotaCode::ok);
}

TEST_P(LongestQuotaTimes, a_waiter_is_served_when_a_lease_of_30_days_ends) {
  driver_.put("m", {slots(1)});
  lease();
  ASSERT_EQ(driver_.reserve({"m"}, waiting(asking({}), 7)).code, QuotaCode::queued);
  advance_ms(longest_lease_ms - 1);
  EXPECT_EQ(driver_.outcomes().size(), 0U);
  advance_ms(1);
  EXPECT_EQ(driver_.served(), (std::vector<api::Ticket>{7}));
}

TEST_P(LongestQuotaTimes, the_longest_wait_ends_after_an_hour) {
  driver_.put("m", {slots(1)});
  lease();
  ASSERT_EQ(driver_.reserve({"m"}, waiting(asking({}), 7, limits::wait_ms_max)).code,
            QuotaCode::queued);
  advance_ms(limits::wait_ms_max - 1);
  EXPECT_EQ(driver_.outcomes().size(), 0U);
  advance_ms(1);
  EXPECT_EQ(driver_.outcomes(), (std::vector<StoreDriver::Outcome>{{7, QuotaCode::wait_limit}}));
}

TEST_P(LongestQuotaTimes, usage_of_a_fixed_year_ends_after_the_year) {
  driver_.put("m", {limit_of("y", Metric::tokens, 100, LimitKind::fixed, year_ms)});
  ASSERT_EQ(driver_.record({"m"}, {.requests = 1, .input_tokens = 100}).code, QuotaCode::ok);
  advance_ms(year_ms - 1);
  EXPECT_EQ(driver_.used("m", "y"), 100U);
  EXPECT_NE(driver_.check({"m"}, asking_tokens(1)).code, QuotaCode::ok);
  advance_ms(1);
  EXPECT_EQ(driver_.used("m", "y"), 0U);
  EXPECT_EQ(driver_.check({"m"}, asking_tokens(100)).code, QuotaCode::ok);
}

TEST_P(LongestQuotaTimes, usage_of_an_anchored_day_ends_after_24_hours) {
  driver_.put("m", {limit_of("d", Metric::tokens, 100, LimitKind::anchored_day, day_ms)});
  for (int day = 0; day < 3; ++day) {
    ASSERT_EQ(driver_.record({"m"}, {.requests = 1, .input_tokens = 100}).code, QuotaCode::ok);
    advance_ms(day_ms - 1);
    EXPECT_EQ(driver_.used("m", "d"), 100U);
    EXPECT_NE(driver_.check({"m"}, asking_tokens(1)).code, QuotaCode::ok);
    advance_ms(1);
    EXPECT_EQ(driver_.used("m", "d"), 0U);
    EXPECT_EQ(driver_.check({"m"}, asking_tokens(100)).code, QuotaCode::ok);
    advance_ms(day * 5 * hour_ms);  // the next one begins with its first use
  }
}

TEST_P(LongestQuotaTimes, usage_of_a_rolling_day_is_kept_for_24_hours) {
  driver_.put("m", {limit_of("d", Metric::tokens, 100, LimitKind::rolling_day, day_ms)});
  ASSERT_EQ(driver_.record({"m"}, {.requests = 1, .input_tokens = 60}).code, QuotaCode::ok);
  advance_ms(day_ms / 2);
  ASSERT_EQ(driver_.record({"m"}, {.requests = 1, .input_tokens = 40}).code, QuotaCode::ok);
  advance_ms(day_ms / 2 - 1);
  EXPECT_EQ(driver_.used("m", "d"), 100U);
  advance_ms(hour_ms);  // longer than a part
  EXPECT_EQ(driver_.used("m", "d"), 40U);
  advance_ms(day_ms / 2 - hour_ms);
  EXPECT_EQ(driver_.used("m", "d"), 40U);
  advance_ms(hour_ms);
  EXPECT_EQ(driver_.used("m", "d"), 0U);
}

// From its first to its last millisecond; where the clocks go back it is an hour longer.
TEST_P(LongestQuotaTimes, usage_of_a_calendar_period_ends_with_the_longest_of_its_kind) {
  struct Row {
    api::CalendarUnit unit;
    const char* zone;
    int64_t begin_s;
    int64_t hours;
  };
  constexpr Row rows[] = {
      {api::CalendarUnit::hour, "UTC", 1'764'547'200, 1},
      {api::CalendarUnit::day, "UTC", 1'764'547'200, 24},       // 2025-12-01
      {api::CalendarUnit::week, "UTC", 1'764'547'200, 7 * 24},  // a Monday
      {api::CalendarUnit::month, "UTC", 1'764'547'200, 31 * 24},
      {api::CalendarUnit::day, "Europe/Berlin", 1'761'429'600, 25},             // 2025-10-26
      {api::CalendarUnit::week, "Europe/Berlin", 1'760'911'200, 7 * 24 + 1},    // 2025-10-20
      {api::CalendarUnit::month, "Europe/Berlin", 1'759'269'600, 31 * 24 + 1},  // 2025-10-01
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.zone) + " " + std::to_string(row.hours));
    api::Limit limit = limit_of("c", Metric::tokens, 100, LimitKind::calendar, 0);
    limit.unit = row.unit;
    limit.time_zone = row.zone;
    StoreDriver driver;
    driver.wall_ns = row.begin_s * base::ns_per_s;
    driver.put("m", {limit});
    ASSERT_EQ(driver.record({"m"}, {.requests = 1, .input_tokens = 100}).code, QuotaCode::ok);
    advance_ms(driver, row.hours * hour_ms - 1);
    EXPECT_EQ(driver.used("m", "c"), 100U);
    EXPECT_NE(driver.check({"m"}, asking_tokens(1)).code, QuotaCode::ok);
    advance_ms(driver, 1);
    EXPECT_EQ(driver.used("m", "c"), 0U);
    EXPECT_EQ(driver.check({"m"}, asking_tokens(100)).code, QuotaCode::ok);
  }
}

// A sliding window forgets part by part, some time after a part's own end but never before.
TEST_P(LongestQuotaTimes, usage_of_a_sliding_year_is_kept_for_the_year) {
  driver_.put("m", {limit_of("y", Metric::tokens, 100, LimitKind::sliding, year_ms)});
  ASSERT_EQ(driver_.record({"m"}, {.requests = 1, .input_tokens = 100}).code, QuotaCode::ok);
  advance_ms(year_ms - 1);
  EXPECT_EQ(driver_.used("m", "y"), 100U);
  advance_ms(year_ms / 10 + 1);
  EXPECT_EQ(driver_.used("m", "y"), 0U);
}

TEST_P(LongestQuotaTimes, a_year_of_gcra_flows_back_evenly) {
  driver_.put("m", {limit_of("y", Metric::tokens, 100, LimitKind::gcra, year_ms)});
  ASSERT_EQ(driver_.record({"m"}, {.requests = 1, .input_tokens = 100}).code, QuotaCode::ok);
  advance_ms(year_ms / 100 - 1);
  EXPECT_NE(driver_.check({"m"}, asking_tokens(1)).code, QuotaCode::ok);
  advance_ms(2);
  EXPECT_EQ(driver_.check({"m"}, asking_tokens(1)).code, QuotaCode::ok);
  advance_ms(year_ms - year_ms / 100 - 2);
  EXPECT_NE(driver_.check({"m"}, asking_tokens(100)).code, QuotaCode::ok);
  advance_ms(2);
  EXPECT_EQ(driver_.check({"m"}, asking_tokens(100)).code, QuotaCode::ok);
}

INSTANTIATE_TEST_SUITE_P(Steps, LongestQuotaTimes, testing::Values(hour_ms, 2 * year_ms));

}  // namespace
}  // namespace sluice::quota
