// Goal: keys and subjects have the owners that gocc's rule gives them; a lone server owns all.
// Method: the owners of some names among one, two and three nodes.
#include "route/ownership.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace sluice::route {
namespace {

TEST(Ownership, of_a_lone_server_is_its_own) {
  constexpr Ownership alone;
  EXPECT_FALSE(alone.has_peers());
  for (const char* name : {"", "a", "key1", "{a}b"}) {
    EXPECT_EQ(alone.node_of_key(name), alone.own_node());
    EXPECT_EQ(alone.node_of_subject(name), alone.own_node());
  }
}

TEST(Ownership, of_keys_follows_from_their_whole_text) {
  constexpr Ownership second(3, 1);
  EXPECT_TRUE(second.has_peers());
  EXPECT_EQ(second.nodes_count(), 3);
  EXPECT_EQ(second.own_node(), 1);
  EXPECT_EQ(second.node_of_key("x"), 0);  // gocc's values
  EXPECT_EQ(second.node_of_key("a"), 1);
  EXPECT_EQ(second.node_of_key("key1"), 2);
  EXPECT_EQ(second.node_of_key("{a}key1"), proto::fnv1a_32("{a}key1") % 3);
}

TEST(Ownership, of_subjects_follows_from_their_tag) {
  constexpr Ownership first(3, 0);
  EXPECT_EQ(first.node_of_subject("key1"), 2);
  EXPECT_EQ(first.node_of_subject("any{key1}thing"), 2);
}

TEST(Ownership, spreads_keys_over_all_nodes) {
  constexpr Ownership first(3, 0);
  std::array<int, 3> keys_of{};
  for (int number = 0; number < 3'000; ++number) {
    ++keys_of.at(first.node_of_key("customer:" + std::to_string(number)));
  }
  for (const int keys : keys_of) EXPECT_NEAR(keys, 1'000, 200);
}

}  // namespace
}  // namespace sluice::route
