// One simulated run of a server that keeps its state: it starts, serves, and crashes, again and
// again, with any number of shards.
// Flow:   seed -> a start: SimStore -> workers over SimIo, their clients -> a crash -> the next
//         start loads what was durable, and that is compared with the copies of its cut.
// Errors: the first failure ends the run and is reported as a sentence.
#pragma once

#include <cstdint>
#include <string>

#include "../state_events.hpp"

namespace sluice::simulation {

struct StateRunResult {
  std::string failure;  // empty: none
  uint64_t starts = 0;
  uint64_t loads = 0;         // starts that had something to load
  uint64_t other_shards = 0;  // of them, with another number of shards
  uint64_t clocks_back = 0;   // the wall's, while the machine was down
  uint64_t calls = 0;
  uint64_t reservations = 0;         // loaded
  uint64_t of_several_subjects = 0;  // reservations compared
  uint64_t came_apart = 0;           // of them, from one shard to several
  uint64_t parts_refunded = 0;
  uint64_t compared = 0;    // amounts
  uint64_t incomplete = 0;  // subjects with calls under way between shards
  StateCounts events{};

  StateRunResult& operator+=(const StateRunResult& other);
};

StateRunResult simulate_state(uint64_t seed);

}  // namespace sluice::simulation
