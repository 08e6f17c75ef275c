// Goal: a cursor keeps the shard and the table's cursor that it was made of, up to the largest.
// Method: encodes and decodes the bounds of both.
#include "server/shard_cursor.hpp"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

TEST(ShardCursor, decodes_to_the_parts_it_was_made_of) {
  constexpr uint64_t place_max = (uint64_t{1} << ShardCursor::place_bits) - 1;
  for (const uint32_t shard : {0U, 1U, 255U, 0xFF'FFFFU}) {
    for (const uint64_t place : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 33, place_max}) {
      const ShardCursor again =
          ShardCursor::of(ShardCursor{.shard = shard, .place = place}.number());
      EXPECT_EQ(again.shard, shard);
      EXPECT_EQ(again.place, place);
    }
  }
}

TEST(ShardCursor, is_zero_at_the_beginning) {
  EXPECT_EQ(ShardCursor{}.number(), 0U);
}

}  // namespace
}  // namespace sluice::server
