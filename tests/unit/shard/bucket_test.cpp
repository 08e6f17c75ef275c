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

}  // namespace
}  // namespace sluice::shard
