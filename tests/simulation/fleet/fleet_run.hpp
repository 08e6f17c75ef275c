// One simulated run of a fleet: its nodes, their clients and what disturbs them, in one thread from
// one seed.
// Flow:   seed -> options -> clients ask while faults come and go -> faults end -> every client
//         gets its answers -> the nodes drain.
// Errors: the first failure ends the run and is reported as a sentence.
#pragma once

#include <cstdint>
#include <string>

#include "fleet_event.hpp"
#include "fleet_options.hpp"

namespace sluice::simulation {

struct FleetResult {
  std::string failure;  // empty: none
  uint64_t calls = 0;
  int64_t simulated_ns = 0;
  uint64_t steps = 0;
  FleetCounts events{};
};

FleetResult simulate_fleet(uint64_t seed, const FleetKind& kind);

}  // namespace sluice::simulation
