// What the sessions of one worker share, and the interface through which they use the worker.
// Flow:   sessions fill the turn; Backend::execute() decides and answers it; later answers reach
//         the session through Session::on_granted(), on_inspected() and on_page().
// Lives:  one per worker; one thread only.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/entry.hpp"
#include "api/quota.hpp"
#include "base/block_pool.hpp"
#include "base/limits.hpp"
#include "base/time.hpp"
#include "base/timer_wheel.hpp"
#include "route/key_column.hpp"
#include "route/misrouted_count.hpp"
#include "route/node_map.hpp"
#include "route/ownership.hpp"
#include "route/shard_message.hpp"
#include "route/turn.hpp"
#include "session/handle_set.hpp"
#include "session/node_bindings.hpp"
#include "session/ready_queue.hpp"
#include "session/request_log.hpp"
#include "session/topology_watcher.hpp"
#include "session/turn_work.hpp"
#include "session/wait_book.hpp"
#include "wire/http_parser.hpp"
#include "wire/permit.hpp"
#include "wire/topology.hpp"

namespace sluice::session {

class Session;

// A request of HTTP/1.1 that asks for HTTP/2, and becomes its first stream.
struct Http2Upgrade {
  std::string settings;       // of HTTP2-Settings, decoded
  std::string head;           // the request's
  wire::HttpRequest request;  // views of the head
};

struct Options {
  uint32_t key_bytes_max = 1'024;
  uint32_t handles_max = 1'000'000;  // of the shard, and of each of its connections
  uint32_t waiters_max = 100'000;    // announced, bounded by limits::connection_waiters_max
  uint32_t wait_ms_max = 0;          // 0: none
  bool requests_can_set_rate = true;
  bool requests_can_mod_queue = true;
  bool requests_can_set_window = true;
  int64_t header_timeout_ms = 10'000;  // for Hello, and for a request's head and body
  int64_t idle_timeout_ms = 120'000;   // HTTP keep-alive without a request; 0: none
  int64_t send_timeout_ms = 60'000;    // a send that does not progress
  int64_t linger_ms = 2'000;           // for the peer to end the connection after we did
  int64_t refused_linger_ms = 200;     // above --max-connections
  // While draining, how long connections stay open for requests that are already on their way.
  int64_t drain_grace_ms = 200;
  int64_t turn_work = TurnWork::turn_work_max;
  // How much a session that is held or behind goes on reading, so that it notices a hang-up early.
  size_t held_input_bytes = 16 * 1024;
  uint32_t shard = 0;
  uint32_t shards = 1;
  route::Ownership ownership;           // of keys, by this node's list
  std::vector<std::string> node_names;  // in its order: host and port
  uint64_t routing_seed = 0;
  uint64_t instance_id = 0;
  uint64_t rules_digest = 0;  // at the start; 0: it is alone
  uint16_t rest_port = 0;
  uint16_t native_port = 0;
  bool http2 = true;        // over REST's port
  std::string peer_secret;  // by which nodes know each other; empty: none
  AccessLog access_log;
};

// The worker as its sessions see it. A key may belong to another shard: then its verdict comes in a
// later turn. So may the answers about shards.
class Backend {
 public:
  // Decides the turn's entries. Requests with entries of other shards are answered later.
  virtual void execute() noexcept = 0;
  // Whether a request with these keys may join the turn, in which there is room: false while too
  // much waits for a shard that owns some of them. If true, it is the next to join, by add() if its
  // entries are plain, else by Turn::add() and, when they are filled, send_last().
  virtual bool find_turn_room(const route::KeyColumn& keys, route::Form form,
                              route::Reach reach) noexcept = 0;
  virtual void add(const route::Request& request, const route::KeyColumn& keys) noexcept = 0;
  virtual void send_last() noexcept = 0;
  // The same for a request with one detailed entry.
  virtual bool find_lone_room(const api::Entry& entry) noexcept = 0;
  virtual void send_lone() noexcept = 0;
  // Whether the frame of the session with this id waits for other shards.
  virtual bool awaits(const Session& session, uint64_t id) const noexcept = 0;

  // The number of a key of this shard or another; no_handle: full. Every intern() is followed by
  // one drop_reference().
  virtual api::Handle intern(std::string_view key) noexcept = 0;
  virtual void drop_reference(api::Handle handle) noexcept = 0;
  virtual std::string_view key_of(api::Handle handle) const noexcept = 0;
  // Whether its key is this shard's.
  virtual bool owns(api::Handle handle) const noexcept = 0;
  // Plain entries by handle, of several shards: find_keys() returns how much text has to go to
  // others, at most limits::handles_text_bytes_max for a request that may join; then, as above,
  // whether there is room, and add().
  virtual size_t find_keys(std::span<const api::Handle> handles) noexcept = 0;
  virtual bool find_room_for_keys(size_t entries_count) noexcept = 0;
  virtual void add(const route::Request& request,
                   std::span<const api::Handle> handles) noexcept = 0;

  // Withdraws a waiter. Its session knows that it is queued, and gets the outcome as a grant.
  virtual void withdraw(WaitingEntry& entry) noexcept = 0;
  // The client has left, and receives no outcome: frees the ticket, now or when the owner no longer
  // needs it, and refunds granted permits while their window runs.
  virtual void abandon(WaitingEntry& entry) noexcept = 0;
  // Permits that this shard, or another of this node, granted to a client of another node, which
  // has left: refunds them while their window runs.
  virtual void refund(const api::RefundClaim& claim, api::ShardId shard) noexcept = 0;

  // How many entries of connections of other shards wait; may be a turn old.
  virtual uint64_t waiting_on_other_shards(WaitsFor what) const noexcept = 0;

  // Whether a shard query or a batch may be sent now; if not, ask again when the session is
  // resumed.
  virtual bool may_query() const noexcept = 0;
  // Answered by on_inspected(id, ...), on_page(id, ...), on_counted(id, ...), on_text(id, ...),
  // now or later. A cursor includes the shard: from 0 on, cursors lead through all shards.
  virtual void inspect(Session& session, uint64_t id, std::string_view key) noexcept = 0;
  virtual void page(Session& session, uint64_t id, uint64_t cursor, uint32_t keys_max) noexcept = 0;
  virtual void count_keys(Session& session, uint64_t id) noexcept = 0;
  virtual void metrics(Session& session, uint64_t id) noexcept = 0;
  virtual void top(Session& session, uint64_t id, uint32_t keys_max) noexcept = 0;

  // Whether ask_nodes() may be called now. It has all nodes of the list answer a request over REST,
  // this one included; answered by on_text(id, ...), later.
  virtual bool may_ask_nodes() const noexcept = 0;
  virtual void ask_nodes(Session& session, uint64_t id, std::string_view method,
                         std::string_view target) noexcept = 0;

  // An empty batch, to be filled and passed to ask(). There is one while may_query().
  virtual api::QuotaBatch& take_batch() noexcept = 0;
  // The same for calls of another node, at any time.
  virtual api::QuotaBatch& take_node_batch() noexcept = 0;
  // Has the batch decided, each call by the shard of its subjects or of its reservation. Answered
  // by on_quota(id, batch), now or later; the batch is the session's until that returns. If the
  // calls are of several shards (spans_shards()), the session has to hold what its peer sends
  // behind them.
  virtual void ask(Session& session, uint64_t id, api::QuotaBatch& batch) noexcept = 0;
  virtual bool spans_shards(const api::QuotaBatch& batch) const noexcept = 0;
  // No client has received or will receive this reservation: its shard cancels it soon. One with a
  // client's id stays, because the client may ask for it again.
  virtual void cancel_undelivered(uint64_t reservation) noexcept = 0;
  // The connection is gone: every shard ends the reservations that are bound to it.
  virtual void end_binding(uint64_t binding) noexcept = 0;

  // The nodes that share the keys, as far as this worker knows them. After a change it calls those
  // of Context::topology_watchers.
  virtual const wire::Topology& topology() const noexcept = 0;

  // The connection goes on in HTTP/2, with all that is in its input buffer: its session is held,
  // and replaced before the turn's end. `upgrade`: its first stream, if it has been upgraded.
  virtual void speak_http2(Session& session, std::unique_ptr<Http2Upgrade> upgrade) noexcept = 0;

  // Hands the connection over to another shard, with all that is in its input buffer. The session
  // is held until it ends, and sends nothing.
  virtual void move(Session& session, uint32_t shard) noexcept = 0;

 protected:
  ~Backend() = default;
};

// Cancels the reservations of a batch with answers that reach no client, but not those with a
// client's id: with that id the client can ask again, and gets the same answer.
inline void cancel_undelivered(Backend& backend, const api::QuotaBatch& batch) noexcept {
  if (batch.visit.is_set()) return;  // its home is another node
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    const api::QuotaCall& call = batch.calls[index];
    const uint64_t reservation = batch.answers[index].reservation;
    if (call.op != api::QuotaOp::reserve || !call.client_id.empty()) continue;
    if (reservation != 0) backend.cancel_undelivered(reservation);
  }
}

struct DirtyTag;
struct BlockedTag;
template <typename Tag>
using SessionHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<Tag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

// Keys that had to be decoded live here until the turn is executed.
class TurnText {
 public:
  TurnText() : memory_(text_bytes) {}
  std::span<char> room() noexcept { return std::span(memory_).subspan(used_); }
  bool has_room(size_t bytes) const noexcept { return memory_.size() - used_ >= bytes; }
  void commit(size_t bytes) noexcept { used_ += bytes; }
  void clear() noexcept { used_ = 0; }

 private:
  static constexpr size_t text_bytes = 256 * 1024;
  std::vector<char> memory_;
  size_t used_ = 0;
};

// Memory to gather one Granted frame, to sort the entries of a Withdraw, or to look keys up.
struct Scratch {
  Scratch() {
    indexes.reserve(limits::frame_entries_max);
    verdicts.reserve(limits::frame_entries_max);
    details.reserve(limits::frame_entries_max);
    permits.reserve(limits::forward_outcomes_max);
    tickets.reserve(limits::frame_entries_max);
    keys.reserve(limits::frame_entries_max);
    key_sizes.reserve(limits::frame_entries_max);
    key_text.reserve(limits::handles_text_bytes_max + limits::key_bytes_max);
    codes.reserve(limits::frame_entries_max);
    reservations.reserve(limits::frame_entries_max);
    retry_after_ms.reserve(limits::frame_entries_max);
    quota_answers.reserve(limits::quota_calls_max);
  }
  // For a reply that is written before its place is known.
  std::span<std::byte> reply_room(size_t bytes) {
    if (reply.size() < bytes) reply.resize(bytes);
    return reply;
  }

  std::vector<std::byte> reply;
  std::vector<uint32_t> indexes;
  std::vector<api::Verdict> verdicts;
  std::vector<api::Detail> details;
  std::vector<wire::Permit> permits;
  std::vector<api::Ticket> tickets;
  std::vector<std::string_view> keys;
  std::vector<uint16_t> key_sizes;
  std::vector<char> key_text;
  std::vector<api::QuotaCode> codes;
  std::vector<uint64_t> reservations;
  std::vector<int64_t> retry_after_ms;
  std::vector<api::QuotaAnswer> quota_answers;
};

struct Context {
  static constexpr size_t kept_blocks_bytes_max = 1024 * 1024;

  // Defined in session.cpp: the lists below need the complete type of Session.
  Context(Backend& of, const Options& with);
  ~Context();

  Backend& backend;
  const Options options;
  base::Now now;
  bool draining = false;
  std::string node_header;  // of answers to GET /healthz, a line
  route::Turn turn;
  TurnText text;
  WaitBook waits;
  HandleSets departed_handles;  // of ended connections; owned
  NodeBindings node_bindings;
  uint32_t handle_work = 0;  // keys interned and handles forgotten in this turn
  Scratch scratch;
  base::BlockPool blocks{kept_blocks_bytes_max};  // of connections of HTTP/2
  base::TimerWheel timers{0};
  uint64_t bindings_count = 0;     // connections with connection-bound reservations, up to now
  uint32_t debug_walks_count = 0;  // GET /debug under way
  uint64_t drained_entries = 0;    // answered `draining` without being decided
  uint64_t handles_refused = 0;    // keys answered `handles_full`
  route::MisroutedCount misrouted;

  using DirtyList =
      boost::intrusive::list<Session, boost::intrusive::base_hook<SessionHook<DirtyTag>>,
                             boost::intrusive::constant_time_size<false>>;
  using BlockedList =
      boost::intrusive::list<Session, boost::intrusive::base_hook<SessionHook<BlockedTag>>,
                             boost::intrusive::constant_time_size<false>>;
  TurnWork work;           // that this turn may still do for peers
  ReadyQueue ready;        // sessions that can go on with what they hold
  BlockedList blocked;     // sessions that go on when other shards have caught up
  bool room_made = false;  // blocked sessions may find room now
  TopologyWatchers topology_watchers;
  DirtyList dirty;  // sessions with something to send, or to close, at the end of the turn

  // Which other instances compare; see policy/rules_digest.hpp.
  void set_rules(uint64_t digest);

  // Unique among the connections of all shards.
  uint64_t new_binding() noexcept { return uint64_t{options.shard} << 48 | ++bindings_count; }

  int64_t now_ms() const noexcept { return base::floor_ms(now.monotonic_ns); }
};

}  // namespace sluice::session
