// What a worker needs to keep what survives a restart.
// Lives:  the pointers' objects outlive all workers.
#pragma once

#include <cstdint>
#include <functional>

#include "base/time.hpp"
#include "quota/quota_decider.hpp"
#include "server/cut_schedule.hpp"
#include "state/state_clock.hpp"

namespace sluice::server {

// What an earlier start has left.
class StateSource {
 public:
  virtual ~StateSource() = default;
  // In a store that is new. Any worker, on its own thread. Throws when the state cannot be read.
  virtual quota::Restored restore(quota::QuotaDecider& quotas, base::Now now) const = 0;
};

struct StateOptions {
  CutSchedule* schedule = nullptr;      // null: nothing is kept
  const StateSource* source = nullptr;  // null: there is nothing
  std::function<state::MachineTime()> machine_time;
  std::function<int64_t()> cpu_ns;  // that the calling thread has used
  // Batches that may wait for the disk; beyond them changes of quotas are refused.
  uint32_t parked_tasks_max = 4'096;
};

}  // namespace sluice::server
