// Blocks are as large as asked for, do not overlap, and are used again.
#include "route/answer_blocks.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace sluice::route {
namespace {

TEST(AnswerBlocks, sizes_grow_by_four) {
  EXPECT_EQ(AnswerBlocks::block_bytes(1), 64U);
  EXPECT_EQ(AnswerBlocks::block_bytes(64), 64U);
  EXPECT_EQ(AnswerBlocks::block_bytes(65), 256U);
  EXPECT_EQ(AnswerBlocks::block_bytes(256), 256U);
  EXPECT_EQ(AnswerBlocks::block_bytes(257), 1'024U);
  EXPECT_EQ(AnswerBlocks::block_bytes(AnswerBlocks::largest_bytes), AnswerBlocks::largest_bytes);
  EXPECT_EQ(AnswerBlocks::largest_bytes, 1024U * 1024);
}

TEST(AnswerBlocks, gives_the_block_that_was_freed_last) {
  AnswerBlocks blocks(4'096);
  std::byte* const first = blocks.take(100);
  std::byte* const second = blocks.take(100);
  EXPECT_GE(static_cast<size_t>(second - first), 256U);
  blocks.free(first, 100);
  blocks.free(second, 100);
  EXPECT_EQ(blocks.take(200), second);
  EXPECT_EQ(blocks.take(65), first);
}

// Blocks of one size never lack the room that those of another have had.
TEST(AnswerBlocks, every_size_has_all_the_room) {
  constexpr size_t bytes_max = 2 * 1024 * 1024;
  AnswerBlocks blocks(bytes_max);
  for (size_t bytes = 64; bytes <= AnswerBlocks::largest_bytes; bytes *= 4) {
    std::vector<std::byte*> taken;
    for (size_t used = 0; used < bytes_max; used += bytes) {
      taken.push_back(blocks.take(bytes));
      std::memset(taken.back(), static_cast<int>(taken.size() % 251), bytes);
    }
    for (size_t index = 0; index < taken.size(); ++index) {
      EXPECT_EQ(taken[index][bytes - 1], static_cast<std::byte>((index + 1) % 251));
      blocks.free(taken[index], bytes);
    }
  }
}

}  // namespace
}  // namespace sluice::route
