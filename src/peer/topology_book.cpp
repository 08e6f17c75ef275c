#include "peer/topology_book.hpp"

namespace sluice::peer {
TopologyBook::TopologyBook(const FleetOptions& options, uint16_t rest_port,
                           const wire::NodeState& own) {
  if (!options.has_peers()) {
    topology_.nodes.push_back({.host = "", .rest_port = rest_port, .state = own});
    return;
  }
  topology_.list_digest = list_digest(options.instances);
  topology_.own_node = options.own_node;
  for (const Instance& instance : options.instances) {
    topology_.nodes.push_back({.host = instance.host, .rest_port = instance.port, .state = {}});
  }
  topology_.nodes[options.own_node].state = own;
}

bool TopologyBook::set(uint32_t node, const wire::NodeState& state) noexcept {
  wire::NodeState& known = topology_.nodes[node].state;
  if (known == state) return false;
  known = state;
  return true;
}

}  // namespace sluice::peer
