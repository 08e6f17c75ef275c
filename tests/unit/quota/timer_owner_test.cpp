// Goal:   a timer names what it was made for.
// Method: every kind, with the least and the greatest index.
#include "quota/timer_owner.hpp"

#include <gtest/gtest.h>

namespace sluice::quota {
namespace {

TEST(TimerOwner, is_read_from_the_timer_as_it_was_written) {
  for (const auto kind : {TimerOwner::lifetime, TimerOwner::wait_limit, TimerOwner::wake}) {
    for (const uint32_t index : {0U, 0xFFFF'FFFFU}) {
      const base::Timer timer(TimerOwner{kind, index}.bits());
      EXPECT_EQ(TimerOwner::of(timer).kind, kind);
      EXPECT_EQ(TimerOwner::of(timer).index, index);
    }
  }
}

}  // namespace
}  // namespace sluice::quota
