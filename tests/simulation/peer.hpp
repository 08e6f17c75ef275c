// A simulated client of either dialect: sends random requests, checks every answer, and ends its
// connection in the ways that clients do.
// Flow:   act() now and then -> outbox -> SimClient; receive() -> answers, checked with the oracle.
// Errors: wrong behaviour of the server is reported to the run's Failure.
// Lives:  one per connection; `over()` when no more answers are expected.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error_code.hpp"
#include "connection_watch.hpp"
#include "frames.hpp"
#include "http2_events.hpp"
#include "io/sim/sim_io.hpp"
#include "io/sim/sim_network.hpp"
#include "oracle.hpp"
#include "shard_events.hpp"
#include "state_events.hpp"

namespace sluice::simulation {

class QuotaBooks;

// What all peers of a run share.
struct World {
  // The Io of the shard that the kernel gives the next connection to.
  io::SimIo& any_io() { return *ios[random.below(ios.size())]; }
  void count(ShardEvent event) { ++shard_events[static_cast<uint32_t>(event)]; }
  void count(StateEvent event) { ++state_events[static_cast<uint32_t>(event)]; }

  io::Random& random;
  std::vector<io::SimIo*> ios;  // of all shards
  Oracle& oracle;
  Failure& failure;
  std::vector<std::string> keys;
  // Of shards that never stand still; may be none.
  std::vector<std::string> bystanders_keys;
  std::function<bool(uint32_t shard)> may_stand_still;
  io::SimNetwork* network = nullptr;
  ConnectionWatch* connections = nullptr;
  QuotaBooks* books = nullptr;  // null: a run without quotas
  uint64_t operations = 0;      // requests and frames sent, connections made and ended
  uint32_t cost_max = 3;
  uint32_t limit_max = 10;  // of overrides
  uint32_t wait_ms_max = 500;
  double greedy_share = 0;
  uint32_t spare_keys = 1'500;  // interned, and hardly ever used
  bool can_set_rate = true;
  bool can_mod_queue = true;
  bool can_set_window = true;
  int64_t header_timeout_ms = 0;
  bool few_tasks = false;       // shards refuse a query while others are under way
  bool time_outs = false;       // some clients are slow enough for the server's time-outs
  bool large_messages = false;  // buffers are large enough for some of many kilobytes
  Http2Counts http2_events{};
  bool keeps_state = false;
  StateCounts state_events{};
  ShardCounts shard_events{};
};

// A few keys get most of the requests.
std::string random_key(World& world);
AskedEntry random_entry(World& world, bool may_wait);
// Sometimes a look.
AskedEntry random_acquire(World& world, bool may_wait);

class Peer {
 public:
  // `is_bystander`: it needs no shard that stands still at some time.
  Peer(World& world, io::ListenerId listener, bool is_bystander = false);
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

  // Sends the rest of what it has begun to send, and reads its answers from now on.
  void attend();
  // A bystander that a shard serves which never stands still: whether it has asked something that
  // waits in no queue, and has no answer.
  bool awaits_bystanders_answer();

  bool over() const { return over_; }
  bool is_bystander() const { return is_bystander_; }
  // While it settles: nothing happens until the server's clock has gone on for long.
  virtual bool awaits_timeout() const { return false; }
  virtual std::string describe() const = 0;
  std::string describe_state() const;

 protected:
  virtual void ask() = 0;                  // adds a request, if there is room for one
  virtual void take_answers() = 0;         // takes whole answers off the front of inbox_
  virtual bool awaits_answer() const = 0;  // answers are outstanding
  virtual uint64_t open_end() const = 0;   // of the first request without its whole answer
  // Likewise, but for those that wait; and whether the first open one waits.
  virtual uint64_t undecided_end() const { return open_end(); }
  virtual bool has_waiter() { return false; }
  virtual void check_turn() {}               // what must hold after any turn
  virtual bool is_hasty() { return false; }  // leaves now, whatever it waits for
  virtual void prepare_to_end() {}           // while it settles, each time
  virtual void check_graceful_end() = 0;     // the server ended its side: are all answers here?

  // Adds one whole request, which the server may answer when it has the first `head_bytes`.
  void send(std::span<const std::byte> bytes, size_t head_bytes,
            SentRequest::Frame frame = SentRequest::Frame::other);
  void send(std::span<const std::byte> bytes) { send(bytes, bytes.size()); }
  // The server ends the connection because of the next request.
  void end_with_next_request();
  ConnectionRecord& record() { return world_.connections->of(client_.link_id()); }
  const ConnectionRecord& record() const { return world_.connections->of(client_.link_id()); }
  // Whether the server has ended the connection for one of these reasons.
  bool was_ended_for(uint32_t reasons) const { return (record().reasons & reasons) != 0; }
  bool is_draining() const { return world_.connections->drains(record()); }
  bool drains_anywhere() const { return world_.connections->drains_anywhere(); }

  // Native: the frames up to this offset must have been answered when the server ended its side.
  // `waits`: an entry of the client still waited.
  uint64_t answered_until_end(bool waits) const;

  // Of the native protocol: an error that announces the connection's end, if it is one.
  bool take_ending_error(ErrorCode code);
  void end_by(ErrorCode code) { ended_by_ = code; }
  void take_go_away();
  bool got_go_away() const { return got_go_away_; }
  void fail(const std::string& text);
  void trace(const std::string& text) const;
  void end();

  std::string random_key();
  AskedEntry random_entry(bool may_wait);
  AskedEntry random_acquire(bool may_wait);
  bool is_written() const { return outbox_.empty() && client_.undelivered_bytes() == 0; }
  DecidedRequests& decided() { return world_.oracle.decided(client_.link_id()); }

  World& world_;
  io::SimClient client_;
  Bytes inbox_;
  bool half_closed_ = false;
  bool settling_ = false;
  const bool is_bystander_;
  const bool
      greedy_;  // sends far more requests than it reads answers: the server must stop reading

 private:
  std::string own_key(std::string key);
  void note_open();
  void write_some(bool all);
  void leave();
  void check_announced_end();

  Bytes outbox_;
  bool reads_ = true;
  bool over_ = false;
  ErrorCode ended_by_ = ErrorCode::none;  // that the server announced
  bool got_go_away_ = false;
  uint32_t pauses_ = 0;  // so often act() sends nothing, maybe behind half a request
  const bool lingers_ = world_.time_outs && world_.random.chance(0.3);  // leaves the last to close
};

}  // namespace sluice::simulation
