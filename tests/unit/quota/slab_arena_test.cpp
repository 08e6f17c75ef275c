// Goal: blocks lie apart, and as many as were promised are always there.
// Method: cases by hand; then blocks of random sizes are taken and freed at the bound, each filled
//         with a byte of its own that is checked when it is freed.
#include "quota/slab_arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace sluice::quota {
namespace {

constexpr size_t block_bytes_max = 16'384;

TEST(SlabArena, cuts_blocks_of_one_size_side_by_side) {
  SlabArena arena(10, block_bytes_max, "test");
  const std::byte* const first = arena.take(192);
  EXPECT_EQ(arena.take(192), first + 192);
  EXPECT_EQ(arena.take(130), first + 384);  // whole cache lines
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0U);
}

TEST(SlabArena, a_block_has_a_number) {
  SlabArena arena(10, block_bytes_max, "test");
  std::byte* const first = arena.take(130);
  std::byte* const second = arena.take(64);
  EXPECT_NE(arena.line_of(first), arena.line_of(second));
  EXPECT_EQ(arena.at_line(arena.line_of(first)), first);
  EXPECT_EQ(arena.at_line(arena.line_of(second)), second);
}

TEST(SlabArena, uses_freed_blocks_before_it_cuts_another_slab) {
  SlabArena arena(100, 1'024, "test");
  std::vector<std::byte*> blocks;
  for (int block = 0; block < 8; ++block) blocks.push_back(arena.take(256));  // two slabs
  arena.free(blocks[2], 256);
  arena.free(blocks[5], 256);
  const std::set<std::byte*> again{arena.take(256), arena.take(256)};
  EXPECT_EQ(again, (std::set<std::byte*>{blocks[2], blocks[5]}));
}

TEST(SlabArena, an_empty_slab_is_used_for_another_size) {
  SlabArena arena(1, block_bytes_max, "test");
  for (const size_t bytes : {64, 16'384, 128, 1'000, 64}) {
    std::byte* const block = arena.take(bytes);
    std::memset(block, 0xFF, bytes);
    arena.free(block, bytes);
  }
}

TEST(SlabArena, no_bytes_are_null) {
  SlabArena arena(1, 64, "test");
  EXPECT_EQ(arena.take(0), nullptr);
  arena.free(nullptr, 0);
  EXPECT_NE(arena.take(64), nullptr);
}

TEST(SlabArenaDeathTest, holding_more_than_promised_aborts) {
  SlabArena arena(2, 64, "test");
  arena.take(64);
  arena.take(64);
  EXPECT_DEATH(arena.take(64), "fresh_ < slabs_");
}

TEST(SlabArenaDeathTest, freeing_a_block_not_as_it_was_taken_aborts) {
  SlabArena arena(2, 256, "test");
  std::byte* const block = arena.take(64);
  arena.take(64);
  EXPECT_DEATH(arena.free(block, 128), "slab.size == lines");
  EXPECT_DEATH(arena.free(block + 16, 64), "offset % slab_bytes_");
  arena.free(block, 64);
  arena.free(block + 64, 64);
  EXPECT_DEATH(arena.free(block, 64), "slab.held > 0");
}

TEST(SlabArena, has_all_it_promised_however_blocks_come_and_go) {
  constexpr uint32_t blocks_max = 60;
  struct Held {
    std::byte* block;
    size_t bytes;
    std::byte mark;
  };
  std::mt19937 random(7);
  SlabArena arena(blocks_max, block_bytes_max, "test");
  std::vector<Held> held;
  const auto free_any = [&] {
    std::swap(held[random() % held.size()], held.back());
    const Held gone = held.back();
    held.pop_back();
    ASSERT_TRUE(std::all_of(gone.block, gone.block + gone.bytes,
                            [&](std::byte at) { return at == gone.mark; }));
    arena.free(gone.block, gone.bytes);
  };
  for (int round = 0; round < 3'000; ++round) {
    // A few sizes at a time, so that slabs fill up; others the next time.
    const size_t size = size_t{64} << (random() % 9);
    while (held.size() < blocks_max) {
      const size_t bytes = size - random() % 2 * (size / 3) - random() % 40;
      const Held taken{arena.take(bytes), bytes, static_cast<std::byte>(random())};
      std::memset(taken.block, static_cast<int>(taken.mark), bytes);
      held.push_back(taken);
    }
    arena.check_invariants();
    for (size_t gone = random() % held.size(); gone > 0; --gone) free_any();
    arena.check_invariants();
  }
  while (!held.empty()) free_any();
  arena.check_invariants();
}

}  // namespace
}  // namespace sluice::quota
