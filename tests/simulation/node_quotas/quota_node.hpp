// One node of a simulated fleet that shares quotas: a group of workers, each over its SimIo.
// Flow:   start() -> turn() -> crash() or the end.
//         With a state it starts again with what its disk has.
// Lives:  the network outlives it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "../sim_state.hpp"
#include "io/sim/sim_io.hpp"
#include "peer/address_book.hpp"
#include "server/worker.hpp"

namespace sluice::simulation {

class QuotaNode {
 public:
  struct Options {
    uint32_t number = 0;
    uint32_t nodes = 1;
    uint64_t tokens_max = 0;  // the limit of each subject
    bool keeps_state = false;
  };

  QuotaNode(const Options& options, io::SimNetwork& network);
  uint32_t number() const { return options_.number; }

  void start();
  // As a process that is killed: its kernel ends all connections. Returns since when the next start
  // has its state, or a later one; QuotaOracle::never_kept: there is none.
  int64_t crash();
  bool has_started() const { return !shards_.empty(); }
  bool has_state() const { return options_.keeps_state; }
  bool is_paused = false;

  void turn();
  // Another client, at server::native_listener or http_listener.
  io::SimClient connect(io::ListenerId listener);
  uint32_t open_reservations() const;
  // Nothing is left of any call.
  bool is_idle() const;
  // The disk does not fail from now on.
  void calm() const;

  bool has_left_out() const { return has_left_out_; }
  uint64_t restored() const { return restored_; }  // reservations
  uint64_t disk_failures() const { return store_ ? store_->failures() : 0; }

 private:
  struct Shard {
    std::unique_ptr<io::SimIo> io;
    std::unique_ptr<server::Worker> worker;
  };

  server::WorkerOptions worker_options();
  void keep_state(server::WorkerOptions& with);
  server::Deciders make_deciders(const server::WorkerOptions& with, const io::SimIo& io);
  void note_epoch();

  const Options options_;
  io::SimNetwork& network_;
  // Of all starts, where a state is kept.
  const uint32_t kept_shards_;
  const uint64_t kept_seed_;
  std::unique_ptr<SimStore> store_;     // null: nothing is kept
  std::map<uint64_t, int64_t> epochs_;  // when they had not begun yet
  uint64_t noted_epoch_ = 0;
  int64_t noted_ns_ = 0;
  bool has_left_out_ = false;
  uint64_t restored_ = 0;

  std::unique_ptr<SimState> state_;
  std::unique_ptr<peer::AddressBook> addresses_;
  std::unique_ptr<server::WorkerGroup> group_;
  std::vector<Shard> shards_;
  std::vector<uint32_t> clients_;  // links
};

}  // namespace sluice::simulation
