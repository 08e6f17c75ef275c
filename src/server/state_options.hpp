// What a worker needs to keep what survives a restart.
// Lives:  the pointers' objects outlive all workers.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/time.hpp"
#include "quota/quota_decider.hpp"
#include "server/cut_schedule.hpp"
#include "shard/key_decider.hpp"
#include "state/state_clock.hpp"

namespace sluice::server {

// Which keys belong to a shard.
struct OwnKeys {
  uint32_t shard = 0;
  uint32_t shards = 1;
  std::function<bool(std::string_view key)> is_own;
  // Whether another node of the fleet owns the key now; empty: there is none.
  std::function<bool(std::string_view key)> is_of_other_node;
};

struct RestoredWindows {
  uint64_t count = 0;
  uint64_t left_out = 0;        // there was no room
  uint64_t of_other_nodes = 0;  // left out, because these own the keys now

  RestoredWindows& operator+=(const RestoredWindows& other) {
    count += other.count;
    left_out += other.left_out;
    of_other_nodes += other.of_other_nodes;
    return *this;
  }
};

// What an earlier start has left.
class StateSource {
 public:
  virtual ~StateSource() = default;
  // In a store that is new. Any worker, on its own thread. Throws when the state cannot be read.
  virtual quota::Restored restore(quota::QuotaDecider& quotas, base::Now now) const = 0;
  // Likewise the windows of the keys that are the shard's own, in a store that has its rules.
  virtual RestoredWindows restore(shard::KeyDecider& keys, const OwnKeys& own,
                                  base::Now now) const = 0;
};

struct StateOptions {
  CutSchedule* schedule = nullptr;      // null: nothing is kept
  const StateSource* source = nullptr;  // null: there is nothing
  uint32_t stored_shards = 0;           // that wrote it; 0: there is nothing
  uint32_t file_tag = 0;                // of the file (state::PartHeader)
  std::function<state::MachineTime()> machine_time;
  std::function<int64_t()> cpu_ns;  // that the calling thread has used
  // Batches that may wait for the disk; beyond them changes of quotas are refused.
  uint32_t parked_tasks_max = 4'096;
};

}  // namespace sluice::server
