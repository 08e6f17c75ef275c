// What a key table guarantees beyond finding keys: its bound, its texts, growth in slices.
#include "shard/key_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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

// No insert moves more than two buckets, however large the table is: nothing stalls while it grows.
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
  EXPECT_LE(most, 2 * Bucket::slots_count);
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
