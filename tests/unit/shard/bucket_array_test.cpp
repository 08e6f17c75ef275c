// Keys that overflow their home are found behind it, around the end too, and leave no trace.
#include "shard/bucket_array.hpp"

#include <gtest/gtest.h>

namespace sluice::shard {
namespace {

constexpr uint32_t last_position = 0xFFFF'FFFF;

class BucketArrayTest : public testing::Test {
 protected:
  BucketArrayTest() { array.open(4); }
  BucketArray array{4};
};

TEST_F(BucketArrayTest, homes_are_in_position_order) {
  EXPECT_EQ(array.home(0), 0U);
  EXPECT_EQ(array.home(last_position), 3U);
  for (uint32_t index = 0; index < 4; ++index) {
    const auto first = static_cast<uint32_t>(array.first_position(index));
    EXPECT_EQ(array.home(first), index);
    EXPECT_TRUE(index == 0 || array.home(first - 1) == index - 1);
  }
  EXPECT_EQ(array.first_position(4), uint64_t{1} << 32);
}

TEST_F(BucketArrayTest, overflows_around_the_end_and_back) {
  for (uint64_t tag = 1; tag <= 7; ++tag) array.insert({tag, last_position}, 0);
  array.check_invariants();
  EXPECT_EQ(array.bucket(3).overflow, 4U);
  EXPECT_EQ(array.bucket(0).overflow, 1U);
  for (uint64_t tag = 1; tag <= 7; ++tag) {
    const Place place = array.find({tag, last_position});
    ASSERT_TRUE(place);
    array.erase(place);
    EXPECT_FALSE(array.find({tag, last_position}));
  }
  for (uint32_t index = 0; index < 4; ++index) EXPECT_EQ(array.bucket(index).overflow, 0U);
}

TEST_F(BucketArrayTest, finds_at_home_only_what_lies_there) {
  for (uint64_t tag = 1; tag <= 4; ++tag) array.insert({tag, 0}, 0);
  for (uint64_t tag = 1; tag <= 3; ++tag) {
    EXPECT_EQ(array.find_at_home({tag, 0}), array.find({tag, 0}));
  }
  EXPECT_EQ(array.find_at_home({4, 0}).slot, Bucket::slots_count);
  EXPECT_EQ(array.find({4, 0}).bucket, &array.bucket(1));
}

TEST_F(BucketArrayTest, search_ends_although_every_bucket_overflows) {
  // Four keys for each of three homes fill the array, one or more of each lying behind. Then one
  // of the first home goes, and one of the last home comes to its place, around the end.
  for (uint32_t home = 0; home < 3; ++home) {
    const auto position = static_cast<uint32_t>(array.first_position(home));
    for (uint64_t number = 1; number <= 4; ++number) {
      array.insert({home * 10 + number, position}, 0);
    }
  }
  array.erase(array.find({1, 0}));
  array.insert({31, last_position}, 0);
  for (uint32_t index = 0; index < 4; ++index) ASSERT_GT(array.bucket(index).overflow, 0U);
  array.check_invariants();
  EXPECT_FALSE(array.find({99, 0}));
  EXPECT_FALSE(array.find({99, last_position}));
}

TEST_F(BucketArrayTest, is_empty_when_opened_again) {
  array.insert({5, 0}, 0);
  array.close();
  array.open(2);
  EXPECT_FALSE(array.find({5, 0}));
  EXPECT_EQ(array.check_invariants(), 0U);
}

}  // namespace
}  // namespace sluice::shard
