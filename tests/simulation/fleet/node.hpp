// One node of a simulated fleet: a group of workers, each over its SimIo. It starts, pauses,
// crashes and starts again, as another instance.
// Flow:   start() -> step() -> crash() or begin_drain().
// Shape:  a worker that sleeps is not called until something wakes it; at a pause none is.
// Lives:  fleet, oracle, network and failure outlive it.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fleet_options.hpp"
#include "fleet_oracle.hpp"
#include "io/sim/sim_io.hpp"
#include "node_io.hpp"
#include "peer/address_book.hpp"
#include "server/worker.hpp"

namespace sluice::simulation {

class Node {
 public:
  Node(uint16_t number, const DrawnFleet& fleet, FleetOracle& oracle, io::SimNetwork& network,
       Failure& failure);
  ~Node();

  void start();
  void crash();
  bool has_started() const { return !shards_.empty(); }
  void set_paused(bool is_paused) { is_paused_ = is_paused; }
  bool is_paused() const { return is_paused_; }
  bool runs() const { return has_started() && !is_paused_; }

  // Some of its workers take a turn.
  void step();
  // Nothing but time or bytes from others wakes it; until when.
  bool is_asleep();
  int64_t wakes_ns() const;

  void begin_drain();
  bool is_drained() const;
  void check_idle() const;
  // Another client; the link is that of its connection.
  io::SimClient connect(io::ListenerId listener);
  // Entries in its keys' queues.
  uint32_t waiters_count() const;
  std::string describe() const;

 private:
  struct Shard {
    std::unique_ptr<io::SimIo> io;
    std::unique_ptr<NodeIo> node_io;
    std::unique_ptr<server::Worker> worker;
    bool is_asleep = false;
    int64_t wakes_ns = 0;
    std::vector<uint64_t> lanes_lost;  // by other node
  };

  bool sleeps_on(const Shard& shard) const;
  void turn(Shard& shard);
  void note_lanes(Shard& shard);

  const uint16_t number_;
  const DrawnFleet& fleet_;
  FleetOracle& oracle_;
  io::SimNetwork& network_;
  Failure& failure_;
  io::Random& random_;
  uint64_t starts_ = 0;
  bool is_paused_ = false;
  std::unique_ptr<peer::AddressBook> addresses_;
  std::unique_ptr<server::WorkerGroup> group_;
  std::vector<Shard> shards_;
  std::set<int> in_transit_;       // connections between two workers
  std::vector<uint32_t> clients_;  // links
};

}  // namespace sluice::simulation
