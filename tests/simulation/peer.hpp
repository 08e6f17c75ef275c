// A simulated client of either dialect: asks at random, checks every answer, ends as clients do.
// Flow:   act() now and then -> outbox -> SimClient; receive() -> answers, against the ledger.
// Errors: what the server must not do is reported to the run's Failure.
// Lives:  one per connection; `over()` when nothing is expected any more.
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
  // The core that the kernel gives the next connection to.
  io::SimIo& any_io() { return *ios[random.below(ios.size())]; }

  io::Random& random;
  std::vector<io::SimIo*> ios;  // of all cores
  Oracle& oracle;
  Failure& failure;
  std::vector<std::string> keys;
  io::SimNetwork* network = nullptr;
  QuotaBooks* books = nullptr;  // none: a run without quotas
  uint64_t operations = 0;      // requests and frames sent, connections made and ended
  uint32_t cost_max = 3;
  uint32_t limit_max = 10;  // of overrides
  uint32_t wait_ms_max = 500;
  double greedy_share = 0;
  uint32_t spare_keys = 1'500;  // interned, and asked hardly ever
  bool can_set_rate = true;
  bool can_mod_queue = true;
  bool draining = false;
  bool cut_off = false;           // draining took too long: connections were closed as they were
  bool time_outs = false;         // the server may end a connection that is slow
  bool connections_full = false;  // ... or one that is too many
};

class Peer {
 public:
  Peer(World& world, io::ListenerId listener);
  virtual ~Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // One random step: asks something, writes a part of it, leaves.
  void act();

  // Takes and checks what has arrived.
  void receive();

  // Ends at once, whatever it is owed.
  void vanish();

  // From now on: asks nothing new, reads everything, and ends when nothing is owed to it.
  void settle();

  bool over() const { return over_; }
  virtual std::string describe() const = 0;
  std::string describe_state() const;

 protected:
  virtual void ask() = 0;                 // one request more, if there is room for it
  virtual void take_answers() = 0;        // whole answers off the front of inbox_
  virtual bool is_owed() const = 0;       // answers are outstanding
  virtual void check_graceful_end() = 0;  // the server ended its side: was it all told?

  void say(std::span<const std::byte> bytes);
  void say(std::string_view text) { say(std::as_bytes(std::span(text))); }
  void fail(const std::string& text);
  void trace(const std::string& text) const;
  void end();

  std::string random_key();
  AskedEntry random_entry(bool may_wait);
  DecidedRequests& decided() { return world_.oracle.decided(client_.link_id()); }

  World& world_;
  io::SimClient client_;
  Bytes inbox_;
  bool may_be_ended_ = false;  // the peer did what ends a connection
  bool half_closed_ = false;
  bool settling_ = false;
  const bool greedy_;  // asks far more than it reads: the server must hold it back

 private:
  void write_some(bool all);
  void leave();

  Bytes outbox_;
  bool reads_ = true;
  bool over_ = false;
};

}  // namespace sluice::simulation
