// The options of a simulated fleet, drawn from its seed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/peer_failure.hpp"
#include "io/peer_address.hpp"
#include "io/sim/random.hpp"
#include "io/sim/sim_io.hpp"
#include "peer/instance_list.hpp"
#include "server/worker_options.hpp"

namespace sluice::simulation {

inline constexpr uint16_t fleet_rest_port = 8'080;
inline constexpr uint16_t fleet_native_port = 8'081;
inline constexpr uint32_t fleet_shards_max = 3;

// What fleets of a suite may have.
struct FleetKind {
  uint32_t nodes = 2;
  bool has_faults = true;
};

struct DrawnFleet {
  uint32_t nodes = 2;
  bool has_faults = true;
  base::PeerFailure on_failure{};
  int64_t timeout_ms = 0;
  int64_t silence_ms = 0;
  int64_t delay_ns_max = 0;  // of every route
  uint32_t limit = 0;        // of every key that several requests name
  int64_t window_ms = 0;
  std::vector<peer::Instance> instances;   // by node
  std::vector<io::PeerAddress> addresses;  // of the REST ports
  // Each node's list. They may differ: then a node is sent what another one owns by its own list.
  std::vector<std::vector<uint32_t>> lists;
  io::SimOptions io;
};

DrawnFleet draw_fleet(io::Random& random, const FleetKind& kind);

// Of one start of a node; without the number of its shard.
server::WorkerOptions draw_node(io::Random& random, const DrawnFleet& fleet, uint16_t node);

}  // namespace sluice::simulation
