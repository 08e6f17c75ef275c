// Goal: every client and every later version routes a key as this one does.
// Method: golden values that another binding of XXH3 made (proto/golden/key_hash.json).
#include "proto/key_hash.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/golden_files.hpp"

namespace sluice::proto {
namespace {

nlohmann::json golden_rows() {
  const auto path = test::golden_directory() / "key_hash.json";
  auto rows = nlohmann::json::parse(test::read_file(path)).at("rows");
  if (rows.size() < 40) throw std::runtime_error("key_hash.json has too few rows");
  return rows;
}

uint64_t u64(const nlohmann::json& number) {
  return std::stoull(number.get<std::string>());
}

TEST(KeyHash, takes_the_text_in_the_first_non_empty_braces) {
  for (const auto& row : golden_rows()) {
    const std::string key = row["key"];
    EXPECT_EQ(routed_part(key), row["routedPart"].get<std::string>()) << key;
  }
}

TEST(KeyHash, sees_a_brace_wherever_it_is) {
  // Neighbours of the brace, and what differs from it in the highest bit.
  for (const char other : {'z', '|', '\xfb', '\0', '\xff', '}', 'a'}) {
    for (size_t size = 0; size <= 40; ++size) {
      std::string key(size, other);
      EXPECT_FALSE(has_brace(key)) << size;
      for (char& c : key) {
        c = '{';
        EXPECT_TRUE(has_brace(key)) << size;
        c = other;
      }
    }
  }
}

TEST(KeyHash, agrees_with_golden_hashes) {
  for (const auto& row : golden_rows()) {
    const std::string key = row["key"];
    EXPECT_EQ(routing_hash(key, u64(row["seed"])), u64(row["hash"])) << key;
  }
}

TEST(KeyHash, agrees_with_golden_owners) {
  for (const auto& row : golden_rows()) {
    for (const auto& [shards_count, owner] : row["owners"].items()) {
      const auto count = static_cast<uint32_t>(std::stoul(shards_count));
      EXPECT_EQ(owner_shard(u64(row["hash"]), count), owner.get<uint32_t>()) << row["key"];
    }
  }
}

TEST(KeyHash, keeps_related_keys_together) {
  EXPECT_EQ(routing_hash("{user:1}.name", 7), routing_hash("{user:1}.mail", 7));
  EXPECT_EQ(routing_hash("a{user:1}", 7), routing_hash("user:1", 7));
  EXPECT_NE(routing_hash("{user:1}", 7), routing_hash("{user:2}", 7));
}

TEST(KeyHash, spreads_over_all_shards) {
  std::vector<int> keys_of(8);
  for (int number = 0; number < 8'000; ++number) {
    ++keys_of[owner_shard(routing_hash("key" + std::to_string(number), 0), 8)];
  }
  for (const int keys : keys_of) EXPECT_NEAR(keys, 1'000, 150);
}

TEST(KeyHash, never_names_a_shard_that_is_not_there) {
  EXPECT_EQ(owner_shard(~0ull, 1), 0u);
  EXPECT_EQ(owner_shard(~0ull, 3), 2u);
  EXPECT_EQ(owner_shard(0, 3), 0u);
}

}  // namespace
}  // namespace sluice::proto
