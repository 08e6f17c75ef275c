// Rounding decides whether a promise is kept by a millisecond. Method: values around the edges.
#include "base/time.hpp"

#include <gtest/gtest.h>

namespace sluice::base {
namespace {

TEST(Time, rounds_a_reached_deadline_down) {
  EXPECT_EQ(floor_ms(0), 0);
  EXPECT_EQ(floor_ms(ns_per_ms - 1), 0);
  EXPECT_EQ(floor_ms(ns_per_ms), 1);
}

TEST(Time, rounds_a_promise_up) {
  EXPECT_EQ(ceil_ms(0), 0);
  EXPECT_EQ(ceil_ms(1), 1);
  EXPECT_EQ(ceil_ms(ns_per_ms), 1);
  EXPECT_EQ(ceil_ms(ns_per_ms + 1), 2);
}

TEST(Time, rounds_to_whole_seconds_up) {
  EXPECT_EQ(ceil_seconds(0), 0);
  EXPECT_EQ(ceil_seconds(1), 1);
  EXPECT_EQ(ceil_seconds(1'000), 1);
  EXPECT_EQ(ceil_seconds(1'001), 2);
  EXPECT_EQ(ceil_seconds(INT64_MAX), INT64_MAX / 1'000 + 1);
  EXPECT_EQ(ceil_seconds(-1), 0);
  EXPECT_EQ(ceil_seconds(INT64_MIN), 0);
}

TEST(Time, keeps_never_in_nanoseconds) {
  EXPECT_EQ(due_ns(never_ms), never_ns);
  EXPECT_EQ(due_ns(2), 2 * ns_per_ms);
}

}  // namespace
}  // namespace sluice::base
