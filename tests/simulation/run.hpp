// One simulated run: a worker over SimIo, its clients, the oracle, all in one thread from one seed.
// Flow:   seed -> options, faults and clients -> operations -> faults stop -> everything drains.
// Errors: the first failure ends the run and is told as a sentence.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "io/sim/sim_faults.hpp"

namespace sluice::simulation {

struct RunResult {
  std::string failure;  // empty: none
  uint64_t operations = 0;
  uint64_t entries = 0;
  uint64_t turns = 0;
  std::array<uint64_t, io::faults_count> faults{};
  std::array<uint64_t, 16> verdicts{};  // entries decided, by verdict
  uint64_t drained = 0;                 // 1: the server was told to stop in the middle
  uint64_t evicted = 0;
};

RunResult simulate(uint64_t seed, uint64_t operations_count);

}  // namespace sluice::simulation
