// Moves the simulated clock under a worker.
#pragma once

#include <algorithm>
#include <cstdint>

#include "io/sim/sim_io.hpp"
#include "server/worker.hpp"

namespace sluice::server {

// For `ms`, at most `step_ms` at a time, with a turn behind each step.
inline void pass_in_steps(io::SimNetwork& network, Worker& worker, int64_t ms, int64_t step_ms) {
  while (ms > 0) {
    const int64_t step = std::min(ms, step_ms);
    network.advance(step * base::ns_per_ms);
    ms -= step;
    worker.turn(0);
  }
}

}  // namespace sluice::server
