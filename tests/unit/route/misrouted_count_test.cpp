// Goal: an entry that came to the wrong node is counted, also of a frame with many.
#include "route/misrouted_count.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::route {
namespace {

constexpr uint16_t nodes_count = 3;

// The first key of this node: "k0", "k1", ...
std::string key_of(uint16_t node, uint32_t after = 0) {
  const Ownership ownership(nodes_count, 0);
  for (uint32_t number = after;; ++number) {
    const std::string key = "k" + std::to_string(number);
    if (ownership.node_of_key(key) == node) return key;
  }
}

void count_frame(MisroutedCount& misrouted, const std::vector<std::string>& keys) {
  std::string text;
  std::vector<uint16_t> sizes;
  for (const std::string& key : keys) {
    text += key;
    sizes.push_back(static_cast<uint16_t>(key.size()));
  }
  misrouted.count({.text = text, .sizes = sizes});
}

TEST(MisroutedCount, counts_keys_of_other_nodes) {
  MisroutedCount misrouted(Ownership(nodes_count, 1));
  misrouted.count(key_of(1));
  EXPECT_EQ(misrouted.entries(), 0u);
  misrouted.count(key_of(0));
  misrouted.count(key_of(2));
  EXPECT_EQ(misrouted.entries(), 2u);
}

TEST(MisroutedCount, counts_each_of_a_frame_whose_first_key_is_misrouted) {
  MisroutedCount misrouted(Ownership(nodes_count, 1));
  count_frame(misrouted, {key_of(1), key_of(1, 100), key_of(1, 200)});
  EXPECT_EQ(misrouted.entries(), 0u);
  count_frame(misrouted, {key_of(2), key_of(1), key_of(0, 100), key_of(2, 1'000)});
  EXPECT_EQ(misrouted.entries(), 3u);
}

TEST(MisroutedCount, counts_subjects_by_their_tags) {
  MisroutedCount misrouted(Ownership(nodes_count, 1));
  misrouted.count_subject("x{" + key_of(1) + "}");
  EXPECT_EQ(misrouted.entries(), 0u);
  misrouted.count_subject(key_of(0));
  misrouted.count_subject("x{" + key_of(2) + "}");
  EXPECT_EQ(misrouted.entries(), 2u);
  MisroutedCount alone{Ownership()};
  alone.count_subject("any");
  EXPECT_EQ(alone.entries(), 0u);
}

TEST(MisroutedCount, an_empty_frame_has_none) {
  MisroutedCount misrouted(Ownership(nodes_count, 1));
  count_frame(misrouted, {});
  EXPECT_EQ(misrouted.entries(), 0u);
}

TEST(MisroutedCount, a_node_without_a_list_owns_every_key) {
  MisroutedCount misrouted{Ownership()};
  misrouted.count("any");
  count_frame(misrouted, {"any", "other"});
  EXPECT_EQ(misrouted.entries(), 0u);
}

}  // namespace
}  // namespace sluice::route
