// One peer's dialogue: cuts its bytes into requests, adds them to the turn, writes the answers.
// Flow:   Io events -> on_*() -> take() of the dialect -> the turn -> on_verdicts() -> output.
// Shape:  bytes are taken where they were received; only the partial tail of a request, or what
//         arrives while the session is held, is copied to the connection's input buffer.
// Errors: a peer's mistake ends in an answer and, where the stream cannot go on, in finish().
// Lives:  from `accepted` to `closed`, or until the connection has moved to another shard; built in
//         place in the worker's session table.
#pragma once

#include <cstdint>
#include <span>

#include "api/entry.hpp"
#include "api/quota.hpp"
#include "base/timer_wheel.hpp"
#include "net/connection.hpp"
#include "route/turn.hpp"
#include "session/context.hpp"
#include "session/undelivered_list.hpp"

namespace sluice::session {

// The turn's results for one request.
struct Verdicts {
  std::span<const api::Entry> entries;
  std::span<const api::Verdict> verdicts;
  std::span<const api::Detail> details;
};

class Session : public ReadyPlace, public SessionHook<DirtyTag>, public SessionHook<BlockedTag> {
 public:
  Session(Context& context, io::Io& io, io::SocketId socket,
          net::ConnectionMemory& memory) noexcept;
  // The connection goes on with a session of another dialect, which is made of what pass_on() has
  // left of this one.
  struct Remains {
    Context& context;
    net::Connection connection;
    UndeliveredList undelivered;
    bool has_unread;
    bool hung_up;
  };
  explicit Session(Remains&& remains) noexcept;
  Remains pass_on() noexcept;
  virtual ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // What a peer may send after its last reply; then the connection is closed at once. Much, because
  // a client that sends a large request whole reads the refusal only then.
  static constexpr uint32_t linger_bytes_max = 4 * 1024 * 1024;

  // The connection was just accepted: reads from now on.
  void begin() noexcept;

  void on_received(std::span<std::byte> bytes) noexcept;
  void on_end_of_stream() noexcept;
  void on_hung_up() noexcept;
  void on_failed() noexcept;
  void on_sent(int32_t result, uint32_t untaken_bytes) noexcept;
  void on_timer() noexcept;

  // Goes on with what is held in the input buffer; called for members of the ready list.
  void resume() noexcept;

  // Other shards have caught up; called for members of the blocked list.
  void unblock() noexcept;
  // Whether shards take another query; if not the session is held until they do.
  bool make_query_room() noexcept;

  // Received bytes that take() has not taken: they move along with the connection.
  std::span<const std::byte> unparsed() const noexcept { return connection_.input().unparsed(); }

  // Writes the outcomes of granted waiters, sends what was written, and closes the connection if it
  // is done.
  void end_turn() noexcept;

  // Ends the connection at once.
  void close() noexcept;

  virtual void on_verdicts(const route::Request& request, const Verdicts& verdicts) noexcept = 0;
  virtual void on_granted(WaitingEntry& entry, const api::Grant& grant) noexcept = 0;
  virtual void on_inspected(uint64_t id, const api::KeyState* state) noexcept = 0;
  virtual void on_page(uint64_t id, std::span<const api::KeyState> keys,
                       uint64_t next_cursor) noexcept = 0;
  virtual void on_counted(uint64_t id, uint64_t keys_count) noexcept = 0;
  virtual void on_text(uint64_t id, std::string_view content_type,
                       std::string_view text) noexcept = 0;

  // The answers to a batch. The entries of queued calls have `waiter` and `owner`, and are to
  // follow WaitEvent::joined; all other tickets are to be freed.
  virtual void on_quota(uint64_t id, const api::QuotaBatch& batch) noexcept = 0;

  // The reply that was just written, but for `missing_bytes` that follow at once, names these
  // reservations (0: none). The session cancels them if the kernel never takes the whole reply.
  template <typename Reservations>
  void on_reply_written(const Reservations& reservations, size_t missing_bytes = 0) noexcept {
    const net::OutputBuffer& output = connection_.output();
    undelivered_.add(output.sends_count() + 1, output.unsent_bytes() + missing_bytes, reservations);
  }

  // There are too many connections: reports that and ends, sooner than other sessions do.
  void refuse() noexcept;
  bool refused() const noexcept { return refused_; }

  // The server shuts down; waiters get their answers as grants.
  virtual void begin_drain() noexcept = 0;
  // The connection is about to be closed: draining took too long.
  virtual void end_drain() noexcept {}

  const net::Connection& connection() const noexcept { return connection_; }
  bool ended() const noexcept { return connection_.closing(); }

  // Its client waits for an outcome, as far as this shard knows.
  bool is_waiting() const noexcept { return has_waiting(); }
  // It waits neither for its turn nor for other shards.
  bool has_caught_up() const noexcept {
    return !is_ready() && !SessionHook<BlockedTag>::is_linked();
  }

 protected:
  enum Hold : uint8_t {
    held_by_output = 1,    // too many unsent answers
    held_by_decision = 2,  // an answer must be written before the next request is handled
    held_by_shards = 4,    // other shards have to catch up with the requests of this one
    held_by_query = 8,     // a shard query or quota query is not answered yet
    held_by_move = 16,     // the connection is on its way to another shard or dialect
  };

  // Takes whole requests off the front of `bytes` until one is incomplete or the session is held;
  // returns how many bytes it took. Sets needed_bytes_.
  virtual size_t take(std::span<const std::byte> bytes) noexcept = 0;

  virtual void write_refusal() noexcept = 0;
  virtual void write_outcomes() noexcept = 0;
  virtual void drop_waiting() noexcept = 0;
  virtual bool has_waiting() const noexcept = 0;
  virtual bool has_undecided() const noexcept = 0;  // requests that other shards still decide

  // The dialect's own deadline and what happens when it passes; base::never_ms for none.
  virtual int64_t deadline_ms() const noexcept = 0;
  virtual void on_deadline() noexcept = 0;

  void mark_dirty() noexcept;
  void mark_ready() noexcept;
  // Counts work as done for this session.
  void spend(uint64_t work) noexcept {
    context_.work.spend(work);
    context_.ready.charge(*this, work);
  }
  // Whether another request may be taken now.
  bool may_take() const noexcept {
    return !held() && !connection_.finishing() && !connection_.closing() &&
           !context_.work.is_over();
  }
  void hold(Hold reason) noexcept { holds_ |= reason; }
  void release_hold(Hold reason) noexcept;
  bool held() const noexcept { return holds_ != 0; }
  bool held_by(Hold reason) const noexcept { return (holds_ & reason) != 0; }

  // Whether a request with these keys may join the turn; if not the session is held until it may.
  bool make_turn_room(const route::KeyColumn& keys, route::Form form,
                      route::Reach reach = route::Reach::fleet) noexcept;
  // The same of handles whose keys the backend has found.
  bool make_room_for_keys(size_t entries_count) noexcept;
  // For a request of entries that are all this shard's.
  void make_own_room(uint32_t entries_count) noexcept {
    if (!context_.turn.has_room(entries_count)) context_.backend.execute();
  }
  // The same for a request with one detailed entry, if there is room in the turn.
  bool make_lone_room(const api::Entry& entry) noexcept;
  // Whether `count` keys may be interned, or handles forgotten, in this turn; if not the session is
  // held until the next one.
  bool make_handle_room(uint32_t count) noexcept;

  // Encodes with `encode(out)` into at most `bytes_max` bytes of output.
  template <typename Encode>
  void write(size_t bytes_max, Encode encode) noexcept {
    if (connection_.closing()) return;
    const size_t bytes = encode(connection_.output().room(bytes_max));
    connection_.output().commit(bytes);
    spend(work::bytes(bytes));
    mark_dirty();
  }

  // Makes sure that another answer may be promised; false: the session is held until the peer
  // reads.
  bool make_output_room() noexcept;
  void finish() noexcept;
  void schedule_timer() noexcept;

  Context& context_;
  net::Connection connection_;
  size_t needed_bytes_ = 0;  // the least size of the next request; 0: unknown

 private:
  void process(std::span<std::byte> bytes) noexcept;
  void discard(size_t bytes) noexcept;
  void on_peer_left() noexcept;
  void store(std::span<const std::byte> bytes) noexcept;
  void take_stored() noexcept;
  void take_unread(size_t bytes_max) noexcept;
  void serve_later() noexcept;
  void block() noexcept;
  bool block_unless(bool has_room) noexcept;
  void control_reading() noexcept;
  void cancel_undelivered(uint64_t send, size_t taken_bytes) noexcept;
  int64_t send_deadline_ms() const noexcept;
  int64_t linger_deadline_ms() const noexcept;
  int64_t next_deadline_ms() const noexcept;

  bool is_ready() const noexcept { return ReadyHook::is_linked(); }
  bool put_off_send() noexcept;
  bool has_more() const noexcept { return has_unread_ || !connection_.input().empty(); }
  // Whether the peer will never read an outcome that is still to come. What it sent before it left
  // and what waits for its turn comes first.
  bool peer_left() const noexcept {
    return (hung_up_ || connection_.peer_finished()) && !(is_ready() && has_more());
  }

  UndeliveredList undelivered_;
  base::Timer timer_;
  int64_t linger_ms_;
  uint64_t discarded_bytes_ = 0;  // received after the last reply
  bool refused_ = false;
  uint8_t holds_ = 0;
  uint8_t put_off_sends_ = 0;  // turns in a row
  size_t turn_bytes_ = 0;      // taken since it was resumed
  bool has_unread_ = false;    // more bytes have arrived than the turn had time for
  bool hung_up_ = false;       // the peer has ended; some bytes of it may not be read yet
};

}  // namespace sluice::session
