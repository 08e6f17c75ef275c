// A simulated client of either dialect: sends random requests, checks every answer, and ends its
// connection in the ways that clients do.
// Flow:   act() now and then -> outbox -> SimClient; receive() -> answers, checked with the oracle.
// Errors: wrong behaviour of the server is reported to the run's Failure.
// Lives:  one per connection; `over()` when no more answers are expected.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frames.hpp"
#include "io/sim/sim_io.hpp"
#include "io/sim/sim_network.hpp"
#include "oracle.hpp"

namespace sluice::simulation {

class QuotaBooks;

// What all peers of a run share.
struct World {
  // The Io of the shard that the kernel gives the next connection to.
  io::SimIo& any_io() { return *ios[random.below(ios.size())]; }

  io::Random& random;
  std::vector<io::SimIo*> ios;  // of all shards
  Oracle& oracle;
  Failure& failure;
  std::vector<std::string> keys;
  io::SimNetwork* network = nullptr;
  QuotaBooks* books = nullptr;  // null: a run without quotas
  uint64_t operations = 0;      // requests and frames sent, connections made and ended
  uint32_t cost_max = 3;
  uint32_t limit_max = 10;  // of overrides
  uint32_t wait_ms_max = 500;
  double greedy_share = 0;
  uint32_t spare_keys = 1'500;  // interned, and hardly ever used
  bool can_set_rate = true;
  bool can_mod_queue = true;
  bool draining = false;
  bool force_closed = false;      // draining took too long: connections were closed as they were
  bool time_outs = false;         // the server may end a slow connection
  bool connections_full = false;  // the server may refuse a connection: there are too many
};

class Peer {
 public:
  Peer(World& world, io::ListenerId listener);
  virtual ~Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // One random step: adds a request, writes some bytes, or leaves.
  void act();

  // Takes and checks the answers that have arrived.
  void receive();

  // Ends at once, without waiting for answers.
  void vanish();

  // From now on: sends no new requests, reads everything, and ends when all answers have arrived.
  void settle();

  bool over() const { return over_; }
  virtual std::string describe() const = 0;
  std::string describe_state() const;

 protected:
  virtual void ask() = 0;                  // adds a request, if there is room for one
  virtual void take_answers() = 0;         // takes whole answers off the front of inbox_
  virtual bool awaits_answer() const = 0;  // answers are outstanding
  virtual void check_graceful_end() = 0;   // the server ended its side: are all answers here?

  void send(std::span<const std::byte> bytes);
  void send(std::string_view text) { send(std::as_bytes(std::span(text))); }
  void fail(const std::string& text);
  void trace(const std::string& text) const;
  void end();

  std::string random_key();
  AskedEntry random_entry(bool may_wait);
  DecidedRequests& decided() { return world_.oracle.decided(client_.link_id()); }

  World& world_;
  io::SimClient client_;
  Bytes inbox_;
  bool may_be_ended_ = false;  // the peer gave the server a reason to end the connection
  bool half_closed_ = false;
  bool settling_ = false;
  const bool
      greedy_;  // sends far more requests than it reads answers: the server must stop reading

 private:
  void write_some(bool all);
  void leave();

  Bytes outbox_;
  bool reads_ = true;
  bool over_ = false;
};

}  // namespace sluice::simulation
