// What a key table promises beyond finding keys: its bound, its texts, growth in slices.
#include "shard/key_table.hpp"

#include <gtest/gtest.h>

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

TEST(KeyTable, tells_text_and_hash_of_a_place) {
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
