// Goal: the table contains a frame from its request to its answer, whatever the order of answers.
// Method: random operations against a std::map.
#include "sluicegate/outstanding_frames.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace sluicegate {
namespace {

TEST(OutstandingFrames, contains_ids_that_were_added_and_not_removed) {
  OutstandingFrames frames;
  EXPECT_FALSE(frames.remove(1));
  frames.add(1, 40);
  frames.add(2, 48);
  EXPECT_EQ(frames.count(), 2u);
  EXPECT_EQ(frames.bytes(), 88u);
  EXPECT_TRUE(frames.remove(1));
  EXPECT_FALSE(frames.remove(1));
  EXPECT_EQ(frames.count(), 1u);
  EXPECT_EQ(frames.bytes(), 48u);
}

TEST(OutstandingFrames, agrees_with_a_map_whatever_the_order_of_answers) {
  std::mt19937_64 random{20'240'229};
  OutstandingFrames frames;
  std::map<uint64_t, uint32_t> expected;
  size_t expected_bytes = 0;
  uint64_t next_id = UINT64_MAX - 10'000;  // ids may wrap around
  for (int i = 0; i < 200'000; ++i) {
    if (expected.size() < 100 && random() % 2 == 0) {
      const auto bytes = static_cast<uint32_t>(random() % 1'000 + 1);
      frames.add(next_id, bytes);
      expected[next_id++] = bytes;
      expected_bytes += bytes;
    } else if (!expected.empty()) {
      // Some are answered at once, some stay for long.
      auto answered = expected.begin();
      std::advance(answered, random() % expected.size() / (random() % 4 + 1));
      expected_bytes -= answered->second;
      ASSERT_TRUE(frames.remove(answered->first));
      ASSERT_FALSE(frames.remove(answered->first));
      expected.erase(answered);
    }
    ASSERT_EQ(frames.count(), expected.size());
    ASSERT_EQ(frames.bytes(), expected_bytes);
  }
  for (const auto& [id, bytes] : expected) EXPECT_TRUE(frames.remove(id));
  EXPECT_EQ(frames.bytes(), 0u);
}

}  // namespace
}  // namespace sluicegate
