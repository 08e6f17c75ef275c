// Goal: every client, every later version and every gocc finds the same owner of a key.
// Method: golden values that tools/golden computes in Python (proto/golden/node_hash.json), and the
// hashes that gocc's specification lists.
#include "proto/node_hash.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

#include "tests/support/golden_files.hpp"

namespace sluice::proto {
namespace {

nlohmann::json rows_of_nodes() {
  const auto path = test::golden_directory() / "node_hash.json";
  auto rows = nlohmann::json::parse(test::read_file(path)).at("rows");
  if (rows.size() < 35) throw std::runtime_error("node_hash.json has too few rows");
  return rows;
}

TEST(NodeHash, agrees_with_golden_hashes) {
  for (const auto& row : rows_of_nodes()) {
    const std::string key = row["key"];
    EXPECT_EQ(fnv1a_32(key), row["hash"].get<uint32_t>()) << key;
  }
}

TEST(NodeHash, agrees_with_golden_owners) {
  for (const auto& row : rows_of_nodes()) {
    const std::string key = row["key"];
    for (const auto& [nodes, owner] : row["keyOwners"].items()) {
      const auto count = static_cast<uint32_t>(std::stoul(nodes));
      EXPECT_EQ(key_node(key, count), owner.get<uint32_t>()) << key << " of " << nodes;
      EXPECT_EQ(subject_node(key, count), row["subjectOwners"][nodes].get<uint32_t>())
          << key << " of " << nodes;
    }
  }
}

TEST(NodeHash, is_that_of_gocc) {
  struct Row {
    const char* key;
    uint32_t hash, of_25, of_3, of_2;
  };
  for (const Row& row :
       {Row{"a", 0xe40c292c, 20, 1, 0}, Row{"x", 0xfd0c5087, 20, 0, 1},
        Row{"key", 0x6815c86c, 3, 1, 0}, Row{"key1", 0x374a6a67, 8, 2, 1},
        Row{"key2", 0x384a6bfa, 2, 1, 0}, Row{"my-id", 0xf829a797, 22, 1, 1},
        Row{"my-key", 0xb3e680d1, 21, 2, 1}, Row{"user-123", 0x8c93cc93, 3, 2, 1},
        Row{"guest", 0xbe5cdbf3, 9, 0, 1}, Row{"foobar", 0xbf9cf968, 20, 1, 0},
        Row{"\xc3\xa5", 0x1a9de275, 16, 1, 1}, Row{"a%2Fb", 0x7da1df1f, 15, 0, 1}}) {
    EXPECT_EQ(fnv1a_32(row.key), row.hash) << row.key;
    EXPECT_EQ(key_node(row.key, 25), row.of_25) << row.key;
    EXPECT_EQ(key_node(row.key, 3), row.of_3) << row.key;
    EXPECT_EQ(key_node(row.key, 2), row.of_2) << row.key;
  }
}

TEST(NodeHash, of_several_texts_is_that_of_each) {
  constexpr std::string_view text = "key1a longer keyxabc";
  for (const std::array<uint16_t, texts_at_once>& sizes :
       {std::array<uint16_t, texts_at_once>{4, 12, 1, 3}, {5, 5, 5, 5}, {0, 1, 7, 12}}) {
    const auto hashes = fnv1a_32(text.data(), sizes);
    size_t begin = 0;
    for (size_t i = 0; i < texts_at_once; ++i) {
      EXPECT_EQ(hashes[i], fnv1a_32(text.substr(begin, sizes[i]))) << i;
      begin += sizes[i];
    }
  }
}

TEST(NodeHash, keeps_subjects_with_a_tag_together_but_not_keys) {
  EXPECT_EQ(subject_node("{acme}.input", 1'000), subject_node("{acme}.output", 1'000));
  EXPECT_EQ(subject_node("{acme}.input", 1'000), subject_node("acme", 1'000));
  EXPECT_NE(key_node("{acme}.input", 1'000), key_node("{acme}.output", 1'000));
}

}  // namespace
}  // namespace sluice::proto
