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

}  // namespace
}  // namespace sluice::base
