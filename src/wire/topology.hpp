// The nodes that share the keys, as a server shows them to a client that asks.
// Flow:   peer::TopologyBook -> session::Backend::topology() -> encode_topology().
// Shape:  the nodes in the order of --instance-urls, whose places are those of the hash rule; a
//         server without a list is the only node, whose host it does not know.
// Bounds: limits::instances_max nodes; the reply that shows them is below limits::reply_bytes_max.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::wire {

// What a connection to a node shows; 0: not known yet, or it is a gocc.
struct NodeState {
  uint16_t native_port = 0;
  uint32_t shards = 0;
  uint64_t routing_seed = 0;
  uint64_t instance_id = 0;
  bool operator==(const NodeState&) const = default;
};

struct TopologyNode {
  std::string host;  // empty: not known
  uint16_t rest_port = 0;
  NodeState state;
};

struct Topology {
  uint64_t list_digest = 0;  // of the URLs, in their order; 0: there is no list
  uint16_t own_node = 0;
  std::vector<TopologyNode> nodes;
};

}  // namespace sluice::wire
