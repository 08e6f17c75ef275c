// What the workers of one simulated start need to keep their state: a schedule of cuts over a
// SimSink, and the machine's clocks.
// Lives:  outlives the workers; `store` and the network outlive it.
#pragma once

#include <cstdint>
#include <functional>

#include "io/sim/random.hpp"
#include "io/sim/sim_network.hpp"
#include "server/cut_schedule.hpp"
#include "server/state_options.hpp"
#include "sim_sink.hpp"
#include "sim_store.hpp"

namespace sluice::simulation {

class SimState {
 public:
  // `machine_time`: at a time of the network's clock.
  using MachineClock = std::function<state::MachineTime(base::Now)>;

  SimState(io::Random& random, SimStore& store, io::SimNetwork& network, uint32_t shards,
           MachineClock machine_time, std::function<void()> wake);

  server::StateOptions options();
  const server::CutSchedule& schedule() const { return schedule_; }

  void step() { sink_.step(); }
  int64_t due_ns() const { return sink_.due_ns(); }
  // Nothing fails, or is slow, from now on.
  void calm();
  void crash() { sink_.crash(); }
  // Has everything cut that happens before: true once it is durable.
  bool finish();

 private:
  int64_t cpu_ns();

  io::Random& random_;
  SimStore& store_;
  io::SimNetwork& network_;
  const MachineClock machine_time_;
  const std::function<void()> wake_;
  SimSink sink_;
  server::CutSchedule schedule_;
  const bool has_cpu_time_;
  int64_t cpu_ns_ = 0;
  uint64_t last_epoch_ = 0;  // that finish() waits for
};

}  // namespace sluice::simulation
