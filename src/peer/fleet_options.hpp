// The instances that limit together, and how this one deals with the others.
// Flow:   flags -> cli/fleet_start -> FleetOptions -> Server -> every Worker.
// Shape:  without --instance-urls the list is empty: this server is alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/peer_failure.hpp"
#include "io/peer_address.hpp"
#include "peer/instance_list.hpp"
#include "route/ownership.hpp"

namespace sluice::peer {

struct FleetOptions {
  std::vector<Instance> instances;  // in the list's order: an index is a node
  uint16_t own_node = 0;
  io::PeerAddress own_address;  // where this process reaches its own REST port
  base::PeerFailure on_failure = base::PeerFailure::error;
  int64_t timeout_ms = 2'000;  // for answers to what may not wait
  int64_t silence_ms = 900;    // without a byte of a peer that owes one: it is lost
  std::string secret;          // empty: none

  bool has_peers() const noexcept { return !instances.empty(); }
  route::Ownership ownership() const noexcept {
    if (!has_peers()) return {};
    return {static_cast<uint16_t>(instances.size()), own_node};
  }
};

}  // namespace sluice::peer
