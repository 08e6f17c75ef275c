// Goal: a freed block is taken again for its size and for no larger one, and no more is kept than
//       the bound.
// Method: addresses and sizes of blocks; AddressSanitizer finds those that are not freed, and uses
//         of those that are.
#include "base/block_pool.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace sluice::base {
namespace {

TEST(BlockPool, takes_the_block_that_was_freed_last) {
  BlockPool pool(10'000);
  void* const first = pool.take(200);
  void* const second = pool.take(200);
  pool.give(first);
  pool.give(second);
  EXPECT_EQ(pool.take(200), second);
  EXPECT_EQ(pool.take(200), first);
  EXPECT_EQ(pool.kept_bytes(), 0u);
  pool.give(first);
  pool.give(second);
}

TEST(BlockPool, has_blocks_for_every_size) {
  BlockPool pool(1'000'000);
  for (const bool is_again : {false, true}) {
    const size_t kept_bytes = pool.kept_bytes();
    std::vector<void*> blocks;
    for (size_t bytes = 0; bytes < BlockPool::block_bytes_max + 100; ++bytes) {
      blocks.push_back(pool.take(bytes));
      ASSERT_NE(blocks.back(), nullptr);
      ASSERT_GE(BlockPool::size_of(blocks.back()), bytes);
      std::memset(blocks.back(), 'x', bytes);
    }
    // malloc() may have given a few more than they were to hold.
    EXPECT_LE(pool.kept_bytes(), kept_bytes / 10) << "they are taken again";
    EXPECT_EQ(kept_bytes > 0, is_again);
    for (void* block : blocks) pool.give(block);
  }
}

TEST(BlockPool, takes_no_smaller_block) {
  BlockPool pool(10'000);
  void* const small = pool.take(40);
  pool.give(small);
  void* const larger = pool.take(41);
  EXPECT_NE(larger, small);
  EXPECT_EQ(pool.take(25), small);
  pool.give(small);
  pool.give(larger);
}

TEST(BlockPool, keeps_no_more_than_its_bound) {
  BlockPool pool(3 * 104);
  std::vector<void*> blocks;
  for (int count = 0; count < 5; ++count) blocks.push_back(pool.take(104));
  for (void* block : blocks) pool.give(block);
  EXPECT_EQ(pool.kept_bytes(), 3u * 104);
}

TEST(BlockPool, keeps_no_large_block) {
  BlockPool pool(1'000'000);
  pool.give(pool.take(BlockPool::block_bytes_max));
  EXPECT_EQ(pool.kept_bytes(), BlockPool::block_bytes_max);
  pool.give(pool.take(BlockPool::block_bytes_max + 16));
  EXPECT_EQ(pool.kept_bytes(), BlockPool::block_bytes_max);
  pool.give(nullptr);
}

TEST(BlockPool, keeps_a_block_that_was_resized) {
  BlockPool pool(10'000);
  void* const block = BlockPool::resize(pool.take(24), 504);
  pool.give(block);
  EXPECT_EQ(pool.take(504), block);
  pool.give(block);
}

}  // namespace
}  // namespace sluice::base
