// Goal: clients are shown all nodes in the list's order, with what is known of each, and hear only
//       of what has changed.
// Method: the book of a server with a list, and of one without.
#include "peer/topology_book.hpp"

#include <gtest/gtest.h>

namespace sluice::peer {
namespace {

constexpr wire::NodeState own{
    .native_port = 8081, .shards = 2, .routing_seed = 7, .instance_id = 11};

FleetOptions fleet_of(const char* urls, uint16_t own_node) {
  FleetOptions options;
  options.instances = parse_instances(urls).instances;
  options.own_node = own_node;
  return options;
}

TEST(TopologyBook, shows_a_server_without_a_list_as_the_only_node) {
  const TopologyBook book({}, 8080, own);
  const wire::Topology& topology = book.topology();
  ASSERT_EQ(topology.nodes.size(), 1U);
  EXPECT_EQ(topology.nodes[0].host, "");
  EXPECT_EQ(topology.nodes[0].rest_port, 8080);
  EXPECT_EQ(topology.nodes[0].state, own);
  EXPECT_EQ(topology.list_digest, 0U);
}

TEST(TopologyBook, has_the_nodes_in_the_lists_order_and_knows_itself) {
  const TopologyBook book(fleet_of("http://b:80, http://a:8080, http://[::1]:99", 1), 8080, own);
  const wire::Topology& topology = book.topology();
  ASSERT_EQ(topology.nodes.size(), 3U);
  EXPECT_EQ(topology.own_node, 1);
  EXPECT_EQ(topology.nodes[0].host, "b");
  EXPECT_EQ(topology.nodes[0].rest_port, 80);
  EXPECT_EQ(topology.nodes[0].state, wire::NodeState{});
  EXPECT_EQ(topology.nodes[1].state, own);
  EXPECT_EQ(topology.nodes[2].host, "::1");
}

TEST(TopologyBook, changes_only_when_a_node_is_another) {
  TopologyBook book(fleet_of("http://a:80, http://b:80", 0), 80, own);
  const wire::NodeState state{.native_port = 81, .shards = 4, .routing_seed = 5, .instance_id = 6};
  EXPECT_TRUE(book.set(1, state));
  EXPECT_EQ(book.topology().nodes[1].state, state);
  EXPECT_FALSE(book.set(1, state));
  wire::NodeState restarted = state;
  restarted.instance_id = 8;
  EXPECT_TRUE(book.set(1, restarted));
  EXPECT_TRUE(book.set(1, {}));  // a gocc has taken its place
}

TEST(TopologyBook, has_one_digest_for_one_list) {
  const auto digest = [](const char* urls, uint16_t own_node) {
    return TopologyBook(fleet_of(urls, own_node), 80, own).topology().list_digest;
  };
  EXPECT_EQ(digest("http://a:80,http://b:80", 0), digest("http://a , http://b:80", 1));
  EXPECT_NE(digest("http://a:80,http://b:80", 0), digest("http://b:80,http://a:80", 0));
  EXPECT_NE(digest("http://a:80,http://b:80", 0), digest("http://a:80,http://b:81", 0));
}

}  // namespace
}  // namespace sluice::peer
