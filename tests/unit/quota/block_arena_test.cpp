// Goal: blocks of all sizes lie apart, are used again by their size, and run out with `none`.
// Method: every size around the edges of the classes, filled and looked at again.
#include "quota/block_arena.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace sluice::quota {
namespace {

TEST(BlockArena, blocks_of_all_sizes_lie_apart) {
  BlockArena arena(16 * 1024 * 1024, "test");
  struct Taken {
    BlockArena::Block block;
    size_t bytes;
  };
  std::vector<Taken> all;
  for (size_t power = 1; power <= BlockArena::block_bytes_max; power *= 2) {
    for (const size_t bytes : {power - 1, power, power + 1, power + power / 2, power * 3 / 2 + 1}) {
      if (bytes == 0 || bytes > BlockArena::block_bytes_max) continue;
      const BlockArena::Block block = arena.take(bytes);
      ASSERT_NE(block, BlockArena::none) << bytes;
      std::memset(arena.at(block), static_cast<int>(all.size() & 0xFF), bytes);
      all.push_back({block, bytes});
    }
  }
  for (size_t index = 0; index < all.size(); ++index) {
    const std::byte expected{static_cast<unsigned char>(index & 0xFF)};
    for (size_t at = 0; at < all[index].bytes; ++at) {
      ASSERT_EQ(arena.at(all[index].block)[at], expected) << index << " of " << all[index].bytes;
    }
  }
}

TEST(BlockArena, a_block_given_back_is_the_next_of_its_size) {
  BlockArena arena(1024 * 1024, "test");
  const BlockArena::Block first = arena.take(100);
  const BlockArena::Block second = arena.take(100);
  arena.free(first, 100);
  arena.free(second, 100);
  EXPECT_EQ(arena.take(128), second);
  EXPECT_EQ(arena.take(97), first);
  EXPECT_NE(arena.take(96), first);
}

TEST(BlockArena, gives_none_when_it_is_full_and_goes_on_with_what_comes_back) {
  BlockArena arena(64 * 1024, "test");
  std::vector<BlockArena::Block> blocks;
  for (BlockArena::Block block; (block = arena.take(4'096)) != BlockArena::none;) {
    blocks.push_back(block);
  }
  EXPECT_EQ(blocks.size(), 15U);  // the beginning is nobody's
  EXPECT_NE(arena.take(16), BlockArena::none);
  arena.free(blocks.back(), 4'096);
  EXPECT_EQ(arena.take(4'096), blocks.back());
  EXPECT_EQ(arena.take(4'096), BlockArena::none);
}

TEST(BlockArena, splits_larger_blocks_when_it_is_full) {
  BlockArena arena(64 * 1024, "blocks");
  std::vector<BlockArena::Block> large;
  for (BlockArena::Block block = arena.take(768); block != BlockArena::none;
       block = arena.take(768)) {
    large.push_back(block);
  }
  while (arena.take(16) != BlockArena::none) continue;  // what was left at the end
  for (const BlockArena::Block block : large) arena.free(block, 768);
  // All that came back is there again, in parts that lie apart.
  std::set<BlockArena::Block> small;
  for (BlockArena::Block block = arena.take(48); block != BlockArena::none;
       block = arena.take(48)) {
    EXPECT_TRUE(small.insert(block).second);
    std::memset(arena.at(block), 0xAB, 48);
  }
  EXPECT_GE(small.size() * 48, large.size() * 768 * 3 / 4);
}

TEST(BlockArena, to_give_none_back_does_nothing) {
  BlockArena arena(64 * 1024, "test");
  arena.free(BlockArena::none, 100);
  EXPECT_NE(arena.take(100), BlockArena::none);
}

}  // namespace
}  // namespace sluice::quota
