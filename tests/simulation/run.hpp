// One simulated run: workers over SimIo, their clients, the oracle, all in one thread from one
// seed.
// Flow:   seed -> options, faults and clients -> operations -> faults stop -> everything drains.
// Errors: the first failure ends the run and is reported as a sentence.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/verdict.hpp"
#include "connection_watch.hpp"
#include "http2_events.hpp"
#include "io/sim/sim_faults.hpp"
#include "quota_watch.hpp"
#include "state_events.hpp"

namespace sluice::simulation {

// Events between several shards, to be counted.
enum class ShardEvent : uint8_t {
  other_shard_entry,  // another shard decided an entry
  full_mailbox,       // something had to wait for a message
  held_session,       // a session was held because other shards were behind
  slow_shard,         // a worker that had work did not run for a while
  slept,              // a worker slept until an event
  moved,              // a connection went to another shard
  refunded,           // a grant was undelivered; its window still ran
  refunded_late,      // a grant was undelivered; its window was over
  turned_meanwhile,   // a worker made a turn while another polled for its messages
};
inline constexpr uint32_t shard_events_count = 9;
std::string_view shard_event_name(ShardEvent event);

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
  std::array<uint64_t, shard_events_count> shard_events{};
  std::array<uint64_t, quota_events_count> quota_events{};
  std::array<uint64_t, connection_events_count> connection_events{};
  Http2Counts http2_events{};
  StateCounts state_events{};
  uint64_t usages_checked = 0;  // amounts reported, against the clients' books
};

RunResult simulate(uint64_t seed, uint64_t operations_count, uint32_t shards_count);

}  // namespace sluice::simulation
