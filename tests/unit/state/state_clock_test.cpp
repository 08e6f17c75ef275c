// Goal: state time goes on by the downtime, measured by the clock that can be trusted, and never
// goes back.
// Method: clocks by hand.
#include "state/state_clock.hpp"

#include <gtest/gtest.h>

namespace sluice::state {
namespace {

constexpr int64_t second = base::ns_per_s;
constexpr BootId first_boot{.high = 1, .low = 2};
constexpr BootId second_boot{.high = 1, .low = 3};
constexpr StoredTime stored{
    .state_ns = 1'000 * second,
    .machine = {.boot = first_boot, .boot_ns = 500 * second, .wall_ns = 2'000'000 * second}};

// At a start, with 7 s of monotonic time.
StateStart start_at(BootId boot, int64_t boot_ns, int64_t wall_ns) {
  return start_state_clock(stored, {.boot = boot, .boot_ns = boot_ns, .wall_ns = wall_ns},
                           7 * second);
}

TEST(StateClock, is_monotonic_time_where_there_is_no_state_yet) {
  const StateStart start = start_state_clock(std::nullopt, {}, 7 * second);
  EXPECT_EQ(start.state_ns, 7 * second);
  EXPECT_EQ(start.offset_ns, 0);
  EXPECT_EQ(start.downtime_ns, 0);
  EXPECT_EQ(clock_warning(start), "");
}

TEST(StateClock, counts_the_downtime_by_the_clock_since_boot) {
  for (const int64_t wall_s : {2'000'030, 1, 9'000'000}) {  // whatever the wall clock did
    const StateStart start = start_at(first_boot, 530 * second, wall_s * second);
    EXPECT_EQ(start.downtime_ns, 30 * second);
    EXPECT_EQ(start.state_ns, 1'030 * second);
    EXPECT_EQ(start.offset_ns, 1'023 * second);
    EXPECT_EQ(start.behind_ns, 0);
  }
}

TEST(StateClock, counts_the_downtime_by_the_wall_clock_after_another_boot) {
  const StateStart start = start_at(second_boot, 10 * second, 2'000'060 * second);
  EXPECT_EQ(start.downtime_ns, 60 * second);
  EXPECT_EQ(start.state_ns, 1'060 * second);
  EXPECT_EQ(clock_warning(start), "");
}

TEST(StateClock, may_be_behind_monotonic_time) {
  const StateStart start = start_state_clock(
      stored, {.boot = first_boot, .boot_ns = 500 * second, .wall_ns = 0}, 5'000 * second);
  EXPECT_EQ(start.state_ns, 1'000 * second);
  EXPECT_EQ(start.offset_ns, -4'000 * second);
}

TEST(StateClock, stands_still_when_the_wall_clock_went_back) {
  const StateStart start = start_at(second_boot, 10 * second, 1'996'400 * second - 1);
  EXPECT_EQ(start.downtime_ns, 0);
  EXPECT_EQ(start.state_ns, 1'000 * second);
  EXPECT_EQ(start.behind_ns, 3'600 * second + 1);
  EXPECT_EQ(clock_warning(start),
            "the clock is 3601 s behind the time at which the state was stored: limits continue as "
            "if no time had passed since, so they may refuse for too long, and never allow too "
            "much; correct the machine's clock");
}

TEST(StateClock, stands_still_when_the_clock_since_boot_went_back) {
  const StateStart start = start_at(first_boot, 499 * second, 2'000'060 * second);
  EXPECT_EQ(start.downtime_ns, 0);
  EXPECT_EQ(start.behind_ns, 1 * second);
  EXPECT_EQ(clock_warning(start).substr(0, 24), "the clock is 1 s behind ");
}

TEST(StateClock, does_not_trust_the_clock_since_boot_where_the_boot_is_unknown) {
  StoredTime unknown = stored;
  unknown.machine.boot = {};
  const StateStart start =
      start_state_clock(unknown, {.boot_ns = 530 * second, .wall_ns = 2'000'060 * second}, 0);
  EXPECT_EQ(start.downtime_ns, 60 * second);
}

TEST(StateClock, counts_no_more_than_a_year_and_a_month) {
  const StateStart start = start_at(second_boot, 0, INT64_MAX);
  EXPECT_EQ(start.downtime_ns, downtime_ns_max);
  EXPECT_EQ(start.state_ns, 1'000 * second + downtime_ns_max);
}

TEST(StateClock, stays_within_the_times_that_are_stored) {
  StoredTime late = stored;
  late.state_ns = state_ns_max;
  const StateStart start = start_state_clock(
      late, {.boot = second_boot, .boot_ns = 0, .wall_ns = 2'000'060 * second}, 0);
  EXPECT_EQ(start.state_ns, state_ns_max);
}

TEST(StateClock, reads_the_id_of_a_boot) {
  const std::optional<BootId> id = parse_boot_id("f4d1ff0a-6f7d-4F0c-8f83-33b3c3bbd8a2\n");
  ASSERT_TRUE(id);
  EXPECT_EQ(id->high, 0xF4D1'FF0A'6F7D'4F0CU);
  EXPECT_EQ(id->low, 0x8F83'33B3'C3BB'D8A2U);
  EXPECT_TRUE(id->is_known());
  EXPECT_EQ(parse_boot_id("f4d1ff0a-6f7d-4f0c-8f83-33b3c3bbd8a2"), id);
  const std::optional<BootId> digits = parse_boot_id("01234567-89ab-cdef-ABCD-EF0000000000");
  ASSERT_TRUE(digits);
  EXPECT_EQ(digits->high, 0x0123'4567'89AB'CDEFU);
  EXPECT_EQ(digits->low, 0xABCD'EF00'0000'0000U);
}

TEST(StateClock, reads_no_id_that_is_not_one) {
  for (const std::string_view text :
       {"", "\n", "f4d1ff0a-6f7d-4f0c-8f83-33b3c3bbd8a", "f4d1ff0a-6f7d-4f0c-8f83-33b3c3bbd8a2a",
        "f4d1ff0a06f7d-4f0c-8f83-33b3c3bbd8a2", "g4d1ff0a-6f7d-4f0c-8f83-33b3c3bbd8a2"}) {
    EXPECT_FALSE(parse_boot_id(text)) << text;
  }
}

}  // namespace
}  // namespace sluice::state
