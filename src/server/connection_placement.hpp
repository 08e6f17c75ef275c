// Places connections: accepts them, refuses those beyond --max-connections, and moves them between
// shards.
// Flow:   `accepted` -> a session here, or release() -> `released` -> a Handover through the
//         exchange -> adopt() at the other shard. A native client may ask for a move, too (move()).
// Shape:  a connection counts for its target shard as soon as it is placed, so that the next
//         placement, by any worker, takes it into account.
// Errors: beyond the bound a connection gets an answer and is closed; beyond refused_sockets_max of
//         those, it is closed without one.
// Lives:  one per worker, one thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/io.hpp"
#include "route/mailboxes.hpp"
#include "server/session_table.hpp"
#include "server/shard_statistics.hpp"
#include "server/worker_group.hpp"
#include "session/context.hpp"

namespace sluice::server {

// Connections above --max-connections that one shard is answering before they are closed.
inline constexpr uint32_t refused_sockets_max = 64;

// A shard's slots for sockets beyond --max-connections: being refused, or being closed.
inline constexpr uint32_t spare_sockets = 2 * refused_sockets_max;

class ConnectionPlacement {
 public:
  // `connections_max`: of all shards together.
  ConnectionPlacement(io::Io& io, WorkerGroup& worker_group, session::Context& context,
                      SessionTable& sessions, route::Mailboxes& mailboxes,
                      WorkerStatistics& statistics, uint32_t connections_max);

  void on_accepted(const io::Event& event) noexcept;
  void on_closed(io::SocketId socket) noexcept;
  void on_released(const io::Event& event) noexcept;

  // Moves a connection to another shard, with the bytes that the session has not taken.
  void move(session::Session& session, uint32_t shard) noexcept;
  // Opens a session for a connection from another shard, and passes it the bytes of the handover.
  // Null: there was no room.
  session::Session* adopt(route::Handover& handover) noexcept;

  // No connection is on its way to another shard.
  bool idle() const noexcept { return moves_.empty(); }

 private:
  // A connection on its way to another shard.
  struct Move {
    io::SocketId socket;
    uint32_t target;
    io::ListenerId listener;
  };

  void refuse(const io::Event& event) noexcept;
  session::Session& open(io::SocketId socket, io::ListenerId listener,
                         std::span<std::byte> bytes) noexcept;
  void release(const Move& move) noexcept;
  std::vector<Move>::iterator find_move(io::SocketId socket) noexcept;

  io::Io& io_;
  WorkerGroup& worker_group_;
  session::Context& context_;
  SessionTable& sessions_;
  route::Mailboxes& mailboxes_;
  WorkerStatistics& statistics_;
  const uint32_t shard_;
  const uint32_t connections_max_;
  std::vector<Move> moves_;
  uint32_t refused_open_ = 0;
};

}  // namespace sluice::server
