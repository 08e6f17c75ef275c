// Goal: the options of a fleet name the owner of a key as its instances do.
#include "peer/fleet_options.hpp"

#include <gtest/gtest.h>

namespace sluice::peer {
namespace {

TEST(FleetOptions, without_a_list_are_those_of_a_lone_server) {
  const FleetOptions alone;
  EXPECT_FALSE(alone.has_peers());
  EXPECT_FALSE(alone.ownership().has_peers());
}

TEST(FleetOptions, number_nodes_by_their_places) {
  const FleetOptions fleet{.instances = parse_instances("http://a,http://b,http://c").instances,
                           .own_node = 2,
                           .secret = {}};
  EXPECT_TRUE(fleet.has_peers());
  EXPECT_EQ(fleet.ownership().nodes_count(), 3);
  EXPECT_EQ(fleet.ownership().own_node(), 2);
  EXPECT_EQ(fleet.ownership().node_of_key("key1"), 2);
}

}  // namespace
}  // namespace sluice::peer
