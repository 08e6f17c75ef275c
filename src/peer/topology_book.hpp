// What a worker knows of all nodes, for clients that send each key to its owner themselves.
// Flow:   Peers -> set() -> has it changed? -> the sessions whose clients asked; topology() ->
//         TopologyReply.
// Shape:  what a node was last seen as stays while its link is down: clients may still reach it.
// Lives:  one per worker, one thread only.
#pragma once

#include <cstdint>

#include "peer/fleet_options.hpp"
#include "wire/topology.hpp"

namespace sluice::peer {

class TopologyBook {
 public:
  // `rest_port` of a server without a list.
  TopologyBook(const FleetOptions& options, uint16_t rest_port, const wire::NodeState& own);

  // True: it is another than before.
  bool set(uint32_t node, const wire::NodeState& state) noexcept;
  const wire::Topology& topology() const noexcept { return topology_; }

 private:
  wire::Topology topology_;
};

}  // namespace sluice::peer
