// One simulated run: workers over SimIo, their clients, the oracle, all in one thread from one
// seed.
// Flow:   seed -> options, faults and clients -> operations -> faults stop -> everything drains.
// Errors: the first failure ends the run and is reported as a sentence.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "api/verdict.hpp"
#include "connection_watch.hpp"
#include "http2_events.hpp"
#include "io/sim/sim_faults.hpp"
#include "quota_watch.hpp"
#include "shard_events.hpp"
#include "state_events.hpp"

namespace sluice::simulation {

struct RunResult {
  std::string failure;  // empty: none
  uint64_t operations = 0;
  uint64_t entries = 0;
  uint64_t by_handle = 0;     // of them, decided in handle slots
  uint64_t handles_full = 0;  // keys that got no handle
  uint64_t turns = 0;
  std::array<uint64_t, io::faults_count> faults{};
  std::array<uint64_t, api::verdicts_count> verdicts{};  // entries decided, by verdict
  uint64_t drained = 0;                                  // 1: the server was drained in the middle
  uint64_t evicted = 0;
  uint64_t adopted = 0;  // new rules, counted for each worker
  ShardCounts shard_events{};
  std::array<uint64_t, quota_events_count> quota_events{};
  std::array<uint64_t, connection_events_count> connection_events{};
  Http2Counts http2_events{};
  StateCounts state_events{};
  uint64_t usages_checked = 0;  // amounts reported, against the clients' books
};

RunResult simulate(uint64_t seed, uint64_t operations_count, uint32_t shards_count);

}  // namespace sluice::simulation
