// What a key table guarantees beyond finding keys: its bound, its texts, growth in slices.
#include "shard/key_table.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <vector>

#include "unit/shard/shard_driver.hpp"

namespace sluice::shard {
namespace {

KeyHash hash_of(const std::string& key) {
  return hash_key(key, test_secret());
}

void insert(KeyTable& table, const std::string& key) {
  ASSERT_TRUE(table.insert(hash_of(key), key));
}

TEST(KeyTable, refuses_insert_when_full) {
  KeyTable table(3, 10);
  for (const char* key : {"a", "b", "c"}) insert(table, key);
  EXPECT_TRUE(table.full());
  EXPECT_FALSE(table.insert(hash_of("d"), "d"));
  table.erase(table.find(hash_of("b")));
  insert(table, "d");
  EXPECT_FALSE(table.find(hash_of("b")));
  table.check_invariants();
}

TEST(KeyTable, returns_text_and_hash_of_a_place) {
  KeyTable table(3, 10);
  insert(table, "key");
  const Place place = table.find(hash_of("key"));
  EXPECT_EQ(table.text(place), "key");
  EXPECT_EQ(table.hash(place), hash_of("key"));
}

TEST(KeyTable, grows_in_slices_and_loses_nothing) {
  KeyTable table(10'000, 10);
  int key = 0;
  while (!table.growing()) insert(table, std::to_string(key++));
  const uint32_t smaller = table.previous().buckets_count();
  EXPECT_LT(smaller, table.current().buckets_count());
  table.grow_slice();
  EXPECT_TRUE(table.growing());  // one slice is not the whole table
  for (int found = 0; found < key; ++found) {
    EXPECT_TRUE(table.find(hash_of(std::to_string(found)))) << found;
  }
  table.check_invariants();
  for (uint32_t slice = 0; slice <= smaller / 64; ++slice) table.grow_slice();
  EXPECT_FALSE(table.growing());
  table.check_invariants();
}

uint32_t keys_to_move(const KeyTable& table) {
  uint32_t keys_count = 0;
  for (uint32_t index = 0; index < table.previous().buckets_count(); ++index) {
    for (const uint64_t tag : table.previous().bucket(index).tags) keys_count += tag != 0;
  }
  return keys_count;
}

// No insert moves more than three buckets, however large the table is: nothing stalls while it
// grows.
TEST(KeyTable, moves_few_keys_at_each_insert) {
  KeyTable table(40'000, 10);
  uint32_t most = 0;
  uint32_t growing_inserts = 0;
  for (int key = 0; key < 40'000; ++key) {
    const uint32_t before = table.growing() ? keys_to_move(table) : 0;
    insert(table, std::to_string(key));
    if (before == 0) continue;
    ++growing_inserts;
    most = std::max(most, before - keys_to_move(table));
  }
  EXPECT_GT(growing_inserts, 1'000U);
  EXPECT_GT(most, 0U);
  EXPECT_LE(most, 3 * Bucket::slots_count);
}

// Of the new array's buckets, in pages of the least size.
size_t touched_pages(const BucketArray& array) {
  constexpr size_t page_bytes = 4096;
  std::vector<unsigned char> resident(array.buckets_count() * sizeof(Bucket) / page_bytes);
  EXPECT_EQ(::mincore(&array.bucket(0), resident.size() * page_bytes, resident.data()), 0);
  return static_cast<size_t>(std::ranges::count_if(resident, [](auto each) { return each & 1; }));
}

// A page that is touched first costs as much as thousands of decisions if it is a large one.
TEST(KeyTable, touches_the_new_array_page_by_page) {
  KeyTable table(80'000, 10);
  int key = 0;
  const auto is_last_growth = [&] {
    return table.growing() && table.previous().buckets_count() > 10'000;
  };
  while (!is_last_growth()) insert(table, std::to_string(key++));
  size_t most = 0;
  size_t touched = touched_pages(table.current());
  while (table.growing()) {
    for (int step = 0; step < 32 && table.growing(); ++step) {
      insert(table, std::to_string(key++));
      EXPECT_FALSE(table.find(hash_of("absent" + std::to_string(key))));
    }
    most = std::max(most, touched_pages(table.current()) - touched);
    touched = touched_pages(table.current());
  }
  // 32 inserts move 96 buckets into 192, which are three pages.
  EXPECT_GT(touched, 400U);
  EXPECT_LE(most, 5U);
}

// Keys of the last homes lie around the end, among the first buckets: they move last.
TEST(KeyTable, loses_no_key_around_the_end) {
  KeyTable table(10'000, 10);
  std::vector<KeyHash> around;
  for (uint64_t tag = 1; tag <= 12; ++tag) {
    const KeyHash hash{.tag = tag, .position = 0xFFFF'FFFF};
    around.push_back(hash);
    ASSERT_TRUE(table.insert(hash, "around"));
  }
  int key = 0;
  while (!table.growing()) insert(table, std::to_string(key++));
  while (table.growing()) {
    for (const KeyHash& hash : around) ASSERT_TRUE(table.find(hash));
    // A new one, while its home is the last to move.
    if (around.size() < 40) {
      around.push_back({.tag = around.size() + 1, .position = 0xFFFF'FFFF});
      ASSERT_TRUE(table.insert(around.back(), "around"));
    }
    table.check_invariants();
    table.grow_slice();
  }
  for (const KeyHash& hash : around) EXPECT_TRUE(table.find(hash));
  table.check_invariants();
}

// Large enough for whole large pages of the old array to be freed before its last key has moved.
TEST(KeyTable, loses_no_key_when_old_pages_are_freed) {
  KeyTable table(700'000, 10);
  int key = 0;
  do {
    while (!table.growing()) insert(table, std::to_string(key++));
    if (table.previous().buckets_count() < 2 * BucketArray::buckets_in_page) {
      while (table.growing()) table.grow_slice();
    }
  } while (!table.growing());
  for (int slice = 0; table.growing(); ++slice) {
    insert(table, std::to_string(key++));
    table.grow_slice();
    if (slice % 500 == 0) table.check_invariants();
  }
  table.check_invariants();
  for (int found = 0; found < key; ++found) {
    ASSERT_TRUE(table.find(hash_of(std::to_string(found)))) << found;
  }
}

TEST(KeyTable, erases_while_it_grows) {
  KeyTable table(10'000, 10);
  int key = 0;
  while (!table.growing()) insert(table, std::to_string(key++));
  for (int erased = 0; erased < key; erased += 2) {
    table.erase(table.find(hash_of(std::to_string(erased))));
  }
  table.check_invariants();
  for (int found = 0; found < key; ++found) {
    EXPECT_EQ(static_cast<bool>(table.find(hash_of(std::to_string(found)))), found % 2 == 1);
  }
}

}  // namespace
}  // namespace sluice::shard
