// One start of a simulated server: workers that load what is stored, their clients, until a crash.
// Lives:  from start to crash; its store outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "../sim_state.hpp"
#include "io/sim/sim_io.hpp"
#include "server/worker.hpp"
#include "state_check.hpp"
#include "state_client.hpp"

namespace sluice::simulation {

// Copies of all cuts, by epoch.
using CopiesByEpoch = std::map<uint64_t, CutCopies>;

struct LifeOptions {
  uint32_t shards = 1;
  base::Now start;  // in state time
  SimState::MachineClock machine_time;
  uint64_t id_seed = 0;
  std::function<void(base::Now)> on_commit;
};

class StateLife {
 public:
  StateLife(StateWorld& world, SimStore& store, CopiesByEpoch& copies, const LifeOptions& options);

  // All that clients and workers do.
  void play(uint64_t turns);
  // Nobody asks any more, and everything becomes durable.
  void finish();
  // Before the end.
  void crash() { state_.crash(); }
  base::Now now() const { return network_.clock(); }
  uint64_t reservations_count() const;  // open

  // The options of a store, for one that is loaded beside those of the workers.
  static quota::Options store_options(uint64_t id_seed);

 private:
  struct Shard {
    std::unique_ptr<io::SimIo> io;
    std::unique_ptr<server::Worker> worker;
  };

  server::WorkerOptions worker_options(const LifeOptions& options);
  server::Deciders make_deciders(const server::WorkerOptions& options, uint32_t shard);
  void copy_cut(quota::QuotaDecider& store, uint32_t shard, uint64_t epoch);
  void step(bool asks);
  void connect_some();
  void remove_ended();
  std::set<std::string> busy_subjects() const;

  StateWorld& world_;
  SimStore& store_;
  CopiesByEpoch& copies_;
  const std::function<void(base::Now)> on_commit_;
  const uint32_t shards_count_;
  const double slowness_;
  const int64_t step_ns_max_;
  io::SimNetwork network_;
  server::WorkerGroup worker_group_;
  SimState state_;
  std::vector<Shard> shards_;
  std::vector<std::unique_ptr<StateClient>> clients_;
  // Of clients that have left.
  std::map<std::string, uint64_t> busy_until_;  // a turn
  uint64_t turns_ = 0;
};

}  // namespace sluice::simulation
