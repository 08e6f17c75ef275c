// Goal: frames are due at fixed times. Method: times by hand.
#include "load/schedule.hpp"

#include <gtest/gtest.h>

namespace sluice::load {
namespace {

TEST(Schedule, a_frame_is_due_as_long_after_the_last_as_that_one_had_entries) {
  Schedule schedule;
  schedule.start(1'000, 2.5);
  EXPECT_EQ(schedule.next_ns(), 1'000u);
  schedule.advance(100);
  EXPECT_EQ(schedule.next_ns(), 1'250u);
  schedule.advance(1);
  EXPECT_EQ(schedule.next_ns(), 1'252u);
}

TEST(Schedule, does_not_drift) {
  Schedule schedule;
  schedule.start(0, 1e9 / 3);  // three a second
  for (int i = 0; i < 3 * 3'600; ++i) schedule.advance(1);
  EXPECT_NEAR(static_cast<double>(schedule.next_ns()), 3'600e9, 1'000);
}

}  // namespace
}  // namespace sluice::load
