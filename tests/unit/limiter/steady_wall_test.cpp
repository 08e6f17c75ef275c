// Goal: wall time for calendars never goes back and never stands still.
// Method: clocks by hand.
#include "limiter/steady_wall.hpp"

#include <gtest/gtest.h>

namespace sluice::limiter {
namespace {

constexpr int64_t s = base::ns_per_s;

TEST(SteadyWall, is_the_wall_clock_as_long_as_that_goes_on) {
  SteadyWall wall;
  EXPECT_EQ(wall.at({.monotonic_ns = 5 * s, .wall_ns = 1'000 * s}), 1'000 * s);
  EXPECT_EQ(wall.at({.monotonic_ns = 6 * s, .wall_ns = 1'001 * s}), 1'001 * s);
}

TEST(SteadyWall, follows_the_wall_clock_forwards_at_once) {
  SteadyWall wall;
  wall.at({.monotonic_ns = 0, .wall_ns = 1'000 * s});
  EXPECT_EQ(wall.at({.monotonic_ns = s, .wall_ns = 90'000 * s}), 90'000 * s);
}

TEST(SteadyWall, runs_on_at_half_speed_until_a_clock_that_was_put_back_has_caught_up) {
  SteadyWall wall;
  wall.at({.monotonic_ns = 0, .wall_ns = 1'000 * s});
  EXPECT_EQ(wall.at({.monotonic_ns = 0, .wall_ns = 990 * s}), 1'000 * s);
  EXPECT_EQ(wall.at({.monotonic_ns = 10 * s, .wall_ns = 1'000 * s}), 1'005 * s);
  EXPECT_EQ(wall.at({.monotonic_ns = 18 * s, .wall_ns = 1'008 * s}), 1'009 * s);
  EXPECT_EQ(wall.at({.monotonic_ns = 20 * s, .wall_ns = 1'010 * s}), 1'010 * s);
  EXPECT_EQ(wall.at({.monotonic_ns = 30 * s, .wall_ns = 1'020 * s}), 1'020 * s);
}

TEST(SteadyWall, continues_where_an_earlier_one_stood) {
  SteadyWall wall;
  wall.resume({.monotonic_ns = 100 * s, .wall_ns = 1'000 * s});
  EXPECT_EQ(wall.at({.monotonic_ns = 110 * s, .wall_ns = 900 * s}), 1'005 * s);
  EXPECT_EQ(wall.at({.monotonic_ns = 110 * s, .wall_ns = 1'100 * s}), 1'100 * s);
}

TEST(SteadyWall, does_not_go_back_when_the_monotonic_time_seems_to) {
  SteadyWall wall;
  wall.at({.monotonic_ns = 10 * s, .wall_ns = 1'000 * s});
  EXPECT_EQ(wall.at({.monotonic_ns = 4 * s, .wall_ns = 900 * s}), 1'000 * s);
  // Nor does the time until it is back count twice.
  EXPECT_EQ(wall.at({.monotonic_ns = 10 * s, .wall_ns = 900 * s}), 1'000 * s);
}

TEST(SteadyWall, begins_with_any_wall_clock) {
  SteadyWall wall;
  EXPECT_EQ(wall.at({.monotonic_ns = 7 * s, .wall_ns = -50 * s}), -50 * s);
  EXPECT_EQ(wall.at({.monotonic_ns = 8 * s, .wall_ns = -49 * s}), -49 * s);
}

}  // namespace
}  // namespace sluice::limiter
