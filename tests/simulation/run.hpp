// One simulated run: workers over SimIo, their clients, the oracle, all in one thread from one
// seed.
// Flow:   seed -> options, faults and clients -> operations -> faults stop -> everything drains.
// Errors: the first failure ends the run and is told as a sentence.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/sim/sim_faults.hpp"
#include "quota_watch.hpp"

namespace sluice::simulation {

// What several cores do to each other, and how often it happened.
enum class ShardEvent : uint8_t {
  crossed,        // an entry was decided by another core
  full_mailbox,   // something had to wait for a message
  held_session,   // a client was held back because other cores were behind
  slow_core,      // a core that had work did nothing for a while
  slept,          // a core slept until an event
  moved,          // a connection went to another core
  refunded,       // a grant found nobody; its window still ran
  refunded_late,  // ... or did not
};
inline constexpr uint32_t core_events_count = 8;
std::string_view core_event_name(ShardEvent event);

struct RunResult {
  std::string failure;  // empty: none
  uint64_t operations = 0;
  uint64_t entries = 0;
  uint64_t by_handle = 0;     // of them, decided at their seats
  uint64_t handles_full = 0;  // keys that got no handle
  uint64_t turns = 0;
  std::array<uint64_t, io::faults_count> faults{};
  std::array<uint64_t, 16> verdicts{};  // entries decided, by verdict
  uint64_t drained = 0;                 // 1: the server was told to stop in the middle
  uint64_t evicted = 0;
  uint64_t adopted = 0;  // new rules, by every core that took some
  std::array<uint64_t, core_events_count> core_events{};
  std::array<uint64_t, quota_events_count> quota_events{};
  uint64_t usages_checked = 0;  // amounts told, against the clients' books
};

RunResult simulate(uint64_t seed, uint64_t operations_count, uint32_t cores_count);

}  // namespace sluice::simulation
