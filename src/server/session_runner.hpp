// Runs the sessions of a worker: when bytes arrive, when they can go on, when their timers are due,
// and at the end of a turn.
// Flow:   Io events -> on_event(); resume_ready(), unblock(), run_timers(), end_turn() in the order
//         of Worker::turn.
// Shape:  goes through the context's lists; a session that marks itself again runs again later.
//         Work that a client can cause again and again is bounded for each turn.
// Errors: none.
// Lives:  one per worker, one thread only.
#pragma once

#include <memory>
#include <vector>

#include "io/io.hpp"
#include "server/entry_decisions.hpp"
#include "server/session_table.hpp"
#include "server/shard_statistics.hpp"
#include "server/waiter_delivery.hpp"
#include "session/context.hpp"
#include "shard/key_decider.hpp"

namespace sluice::server {

class SessionRunner {
 public:
  SessionRunner(session::Context& context, SessionTable& sessions, EntryDecisions& decisions,
                WaiterDelivery& waiters, shard::KeyDecider& keys, WorkerStatistics& statistics)
      : context_(context),
        sessions_(sessions),
        decisions_(decisions),
        waiters_(waiters),
        keys_(keys),
        statistics_(statistics) {}

  // Whether a session has something to do without an event.
  bool has_work() const noexcept {
    return !context_.ready.empty() || !context_.dirty.empty() || context_.room_made ||
           !context_.departed_handles.empty() || !changes_.empty();
  }

  // Ignores events of sockets that have no session any more.
  void on_event(const io::Event& event) noexcept;
  // Sessions that were held by other shards go on when there is room again.
  void unblock() noexcept;
  // A connection of HTTP/1.1 goes on in HTTP/2 with the next change_dialects().
  void speak_http2(const session::Session& session,
                   std::unique_ptr<session::Http2Upgrade> upgrade) noexcept;
  void change_dialects() noexcept;
  // As far as the turn's work goes.
  void resume_ready() noexcept;
  void run_timers() noexcept;
  // One send for each session that has something to send.
  void end_turn() noexcept;
  // A connection may have held every handle: they are dropped in slices.
  void free_departed_handles() noexcept;

  // The server shuts down: first every session prepares; those that are left when the time is over
  // say so, and are closed in the next turn.
  void begin_drain() noexcept;
  void end_drain() noexcept;
  void force_close() noexcept;
  void close_all() noexcept;

 private:
  struct Change {
    io::SocketId socket;
    std::unique_ptr<session::Http2Upgrade> upgrade;
  };

  template <typename Visit>
  void for_each(Visit visit) noexcept {
    for (uint32_t index = 0; index < sessions_.index_end(); ++index) {
      if (session::Session* session = sessions_.at(index)) visit(*session);
    }
  }

  session::Context& context_;
  SessionTable& sessions_;
  EntryDecisions& decisions_;
  WaiterDelivery& waiters_;
  shard::KeyDecider& keys_;
  WorkerStatistics& statistics_;
  std::vector<Change> changes_;
};

}  // namespace sluice::server
