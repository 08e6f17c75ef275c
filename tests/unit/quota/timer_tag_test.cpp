// Goal:   a timer names what it was made for.
// Method: every kind, with the least and the greatest index.
#include "quota/timer_tag.hpp"

#include <gtest/gtest.h>

namespace sluice::quota {
namespace {

TEST(TimerTag, is_read_from_the_timer_as_it_was_written) {
  for (const auto kind : {TimerTag::lifetime, TimerTag::wait_limit, TimerTag::wake}) {
    for (const uint32_t index : {0U, 0xFFFF'FFFFU}) {
      const base::Timer timer(TimerTag{kind, index}.bits());
      EXPECT_EQ(TimerTag::of(timer).kind, kind);
      EXPECT_EQ(TimerTag::of(timer).index, index);
    }
  }
}

}  // namespace
}  // namespace sluice::quota
