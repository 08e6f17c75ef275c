// Goal:   numbers are found by their hash, whatever else was inserted and erased.
// Method: crowds of equal and neighbouring homes; random insertions and erasures beside a map.
#include "quota/hash_index.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace sluice::quota {
namespace {

// A hash that has `home` as its home in a small index.
uint64_t hash_at(uint64_t home) {
  return home << 32;
}

uint32_t find(const HashIndex& index, uint64_t hash, uint32_t number) {
  return index.find(hash, [number](uint32_t found) { return found == number; });
}

TEST(HashIndex, finds_each_of_many_with_the_same_hash) {
  HashIndex index(8, "test");
  for (uint32_t number = 0; number < 8; ++number) index.insert(hash_at(3), number);
  for (uint32_t number = 0; number < 8; ++number) {
    EXPECT_EQ(find(index, hash_at(3), number), number);
  }
  EXPECT_EQ(find(index, hash_at(3), 8), HashIndex::none);
  EXPECT_EQ(find(index, hash_at(4), 0), HashIndex::none);
}

TEST(HashIndex, inserts_as_the_first_only_what_no_other_has_the_hash_of) {
  HashIndex index(8, "test");
  EXPECT_TRUE(index.insert_first(hash_at(3), 0));
  EXPECT_TRUE(index.insert_first(hash_at(4), 1));
  EXPECT_FALSE(index.insert_first(hash_at(3), 2));
  EXPECT_FALSE(index.insert_first(hash_at(4), 2));
  EXPECT_EQ(find(index, hash_at(3), 2), HashIndex::none);
  EXPECT_EQ(find(index, hash_at(4), 2), HashIndex::none);
  index.erase(hash_at(3), 0);
  EXPECT_TRUE(index.insert_first(hash_at(3), 2));
  EXPECT_EQ(index.first_with(hash_at(3)), 2U);
  EXPECT_EQ(index.first_with(hash_at(4)), 1U);
}

TEST(HashIndex, erasing_one_leaves_those_behind_it_to_be_found) {
  for (uint32_t erased = 0; erased < 6; ++erased) {
    HashIndex index(8, "test");
    // Homes 14, 14, 15, 15, 0, 1: the crowd reaches over the end.
    const uint64_t homes[] = {14, 14, 15, 15, 0, 1};
    for (uint32_t number = 0; number < 6; ++number) index.insert(hash_at(homes[number]), number);
    index.erase(hash_at(homes[erased]), erased);
    for (uint32_t number = 0; number < 6; ++number) {
      EXPECT_EQ(find(index, hash_at(homes[number]), number),
                number == erased ? HashIndex::none : number)
          << erased;
    }
  }
}

TEST(HashIndex, replaces_one_of_many_with_the_same_hash) {
  HashIndex index(8, "test");
  for (uint32_t number = 0; number < 4; ++number) index.insert(hash_at(3), number);
  index.replace(hash_at(3), 2, 77);
  EXPECT_EQ(find(index, hash_at(3), 2), HashIndex::none);
  for (const uint32_t number : {0U, 1U, 3U, 77U}) {
    EXPECT_EQ(find(index, hash_at(3), number), number);
  }
}

TEST(HashIndex, holds_as_many_as_it_was_made_for_and_any_number) {
  HashIndex index(3, "test");
  for (const uint32_t number : {0U, 0x8000'0000U, 0xFFFF'FFFEU}) {
    index.insert(hash_at(number), number);
    EXPECT_EQ(index.first_with(hash_at(number)), number);
  }
}

TEST(HashIndex, finds_the_same_as_a_map_after_any_insertions_and_erasures) {
  std::mt19937_64 dice(7);
  HashIndex index(64, "test");
  std::map<uint32_t, uint64_t> all;
  for (int step = 0; step < 20'000; ++step) {
    const auto number = static_cast<uint32_t>(dice() % 200);
    if (const auto at = all.find(number); at != all.end()) {
      index.erase(at->second, number);
      all.erase(at);
    } else if (all.size() < 64) {
      all[number] = hash_at(dice() % 40);
      index.insert(all[number], number);
    }
    if (step % 100 != 0) continue;
    for (uint32_t at = 0; at < 200; ++at) {
      const bool there = all.contains(at);
      ASSERT_EQ(find(index, there ? all[at] : hash_at(at % 40), at), there ? at : HashIndex::none);
    }
  }
}

}  // namespace
}  // namespace sluice::quota
