// One node of a simulated fleet that shares quotas: a group of workers, each over its SimIo.
// Flow:   start() -> turn() -> crash() or the end.
// Lives:  the network outlives it.
#pragma once

#include <memory>
#include <vector>

#include "io/sim/sim_io.hpp"
#include "peer/address_book.hpp"
#include "server/worker.hpp"

namespace sluice::simulation {

class QuotaNode {
 public:
  QuotaNode(uint32_t number, uint32_t nodes, io::SimNetwork& network)
      : number_(number), nodes_(nodes), network_(network) {}

  void start();
  // As a process that is killed: its kernel ends all connections.
  void crash();
  bool has_started() const { return !shards_.empty(); }
  bool is_paused = false;

  void turn();
  // Another client, natively.
  io::SimClient connect();
  uint32_t open_reservations() const;
  // Nothing is left of any call.
  bool is_idle() const;

 private:
  struct Shard {
    std::unique_ptr<io::SimIo> io;
    std::unique_ptr<server::Worker> worker;
  };

  server::WorkerOptions options() const;

  const uint32_t number_;
  const uint32_t nodes_;
  io::SimNetwork& network_;
  std::unique_ptr<peer::AddressBook> addresses_;
  std::unique_ptr<server::WorkerGroup> group_;
  std::vector<Shard> shards_;
  std::vector<uint32_t> clients_;  // links
};

}  // namespace sluice::simulation
