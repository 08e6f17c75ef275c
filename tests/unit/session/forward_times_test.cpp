// Goal: the times of the last frames of a lane are known, and no others.
#include "session/forward_times.hpp"

#include <gtest/gtest.h>

namespace sluice::session {
namespace {

TEST(ForwardTimes, knows_nothing_at_first) {
  const ForwardTimes times;
  EXPECT_FALSE(times.find(0));
  EXPECT_FALSE(times.find(7));
}

TEST(ForwardTimes, knows_the_last_frames) {
  ForwardTimes times;
  for (uint64_t id = 1; id <= 100; ++id) times.note(id, static_cast<int64_t>(1'000 + id));
  for (uint64_t id = 1; id <= 100; ++id) {
    const auto found = times.find(id);
    ASSERT_EQ(found.has_value(), id > 100 - limits::remembered_forwards) << id;
    if (found) {
      EXPECT_EQ(*found, static_cast<int64_t>(1'000 + id));
    }
  }
}

TEST(ForwardTimes, knows_the_last_frame_of_an_id) {
  ForwardTimes times;
  times.note(7, 1);
  times.note(8, 2);
  times.note(7, 3);
  EXPECT_EQ(times.find(7), 3);
  EXPECT_EQ(times.find(8), 2);
}

}  // namespace
}  // namespace sluice::session
