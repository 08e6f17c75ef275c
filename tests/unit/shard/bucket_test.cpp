// A bucket finds the slots of a tag.
#include "shard/bucket.hpp"

#include <gtest/gtest.h>

namespace sluice::shard {
namespace {

TEST(Bucket, matches_tags) {
  Bucket bucket{};
  bucket.tags[0] = 7;
  bucket.tags[2] = 9;
  EXPECT_EQ(bucket.match(7), 1U);
  EXPECT_EQ(bucket.match(9), 4U);
  EXPECT_EQ(bucket.match(0), 2U);
  EXPECT_EQ(bucket.match(8), 0U);
}

TEST(Bucket, names_the_first_slot_of_a_match) {
  EXPECT_EQ(Bucket::slot_of(0), Bucket::slots_count);
  EXPECT_EQ(Bucket::slot_of(1), 0U);
  EXPECT_EQ(Bucket::slot_of(6), 1U);
  EXPECT_EQ(Bucket::slot_of(4), 2U);
}

}  // namespace
}  // namespace sluice::shard
