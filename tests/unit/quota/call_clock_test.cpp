// Goal: time never goes back, deadlines never come early, and calls are in order.
// Method: moments by hand, between milliseconds and backwards.
#include "quota/call_clock.hpp"

#include <gtest/gtest.h>

namespace sluice::quota {
namespace {

TEST(CallClock, rounds_the_present_down_and_deadlines_up) {
  CallClock clock;
  clock.begin({.monotonic_ns = 5'000'001, .wall_ns = 7});
  EXPECT_EQ(clock.ns(), 5'000'001);
  EXPECT_EQ(clock.ms(), 5);
  EXPECT_EQ(clock.due_ms(10), 16);
  clock.begin({.monotonic_ns = 6'000'000, .wall_ns = 7});
  EXPECT_EQ(clock.ms(), 6);
  EXPECT_EQ(clock.due_ms(10), 16);
}

TEST(CallClock, never_goes_back) {
  CallClock clock;
  clock.begin({.monotonic_ns = 5'000'000, .wall_ns = 900});
  clock.begin({.monotonic_ns = 4'000'000, .wall_ns = 100});
  EXPECT_EQ(clock.ns(), 5'000'000);
  EXPECT_EQ(clock.ms(), 5);
  EXPECT_EQ(clock.moment().wall_ns, 900);
}

TEST(CallClock, orders_calls_of_the_same_moment) {
  CallClock clock;
  clock.begin({.monotonic_ns = 1, .wall_ns = 1});
  const uint64_t first = clock.order();
  clock.next_call();
  EXPECT_GT(clock.order(), first);
  const uint64_t second = clock.order();
  clock.begin({.monotonic_ns = 1, .wall_ns = 1});
  EXPECT_GT(clock.order(), second);
  EXPECT_EQ(clock.moment().order, clock.order());
}

TEST(CallClock, orders_of_two_clocks_are_those_of_their_times) {
  CallClock busy;
  busy.begin({.monotonic_ns = 1'000'000, .wall_ns = 1});
  for (int call = 0; call < 1'000; ++call) busy.next_call();
  const uint64_t before = busy.order();
  CallClock idle;
  idle.begin({.monotonic_ns = 2'000'000, .wall_ns = 1});
  EXPECT_GT(idle.order(), before);
  busy.begin({.monotonic_ns = 3'000'000, .wall_ns = 1});
  EXPECT_GT(busy.order(), idle.order());
}

TEST(CallClock, continues_where_an_earlier_one_stood) {
  CallClock clock;
  clock.resume({.ns = 5'000'000, .wall_ns = 900, .order = 7'000'000});
  clock.begin({.monotonic_ns = 4'000'000, .wall_ns = 100});
  EXPECT_EQ(clock.ns(), 5'000'000);
  EXPECT_EQ(clock.moment().wall_ns, 900);
  EXPECT_GT(clock.order(), 7'000'000U);
}

}  // namespace
}  // namespace sluice::quota
