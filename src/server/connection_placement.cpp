#include "server/connection_placement.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace sluice::server {

ConnectionPlacement::ConnectionPlacement(io::Io& io, WorkerGroup& worker_group,
                                         session::Context& context, SessionTable& sessions,
                                         route::Mailboxes& mailboxes, WorkerStatistics& statistics,
                                         uint32_t connections_max)
    : io_(io),
      worker_group_(worker_group),
      context_(context),
      sessions_(sessions),
      mailboxes_(mailboxes),
      statistics_(statistics),
      shard_(mailboxes.shard()),
      connections_max_(connections_max) {}

// Connections are spread evenly over the shards, whichever of them the kernel gave this one to.
void ConnectionPlacement::on_accepted(const io::Event& event) noexcept {
  ++statistics_.accepted;
  if (worker_group_.connections_of_all() >= connections_max_) return refuse(event);
  const uint32_t target =
      context_.draining ? shard_ : worker_group_.least_connected(shard_, event.listener);
  worker_group_.count_connection(target, event.listener, 1);
  if (target != shard_) return release({event.socket, target, event.listener});
  open(event.socket, event.listener, {});
}

// Refused connections are not counted: as soon as one of the others ends, there is room.
void ConnectionPlacement::refuse(const io::Event& event) noexcept {
  ++statistics_.refused;
  if (refused_open_ == refused_sockets_max) return io_.close(event.socket);
  ++refused_open_;
  open(event.socket, event.listener, {}).refuse();
}

// `bytes`: what another shard has received already.
session::Session& ConnectionPlacement::open(io::SocketId socket, io::ListenerId listener,
                                            std::span<std::byte> bytes) noexcept {
  session::Session& session = listener == http_listener
                                  ? sessions_.open_http(context_, io_, socket)
                                  : sessions_.open_native(context_, io_, socket);
  session.begin();
  if (!bytes.empty()) session.on_received(bytes);
  return session;
}

void ConnectionPlacement::on_closed(io::SocketId socket) noexcept {
  const session::Session* session = sessions_.find(socket);
  if (session == nullptr) return;  // the connection was refused without an answer
  const auto moving = find_move(socket);
  const uint32_t counted_at = moving == moves_.end() ? shard_ : moving->target;
  if (session->refused()) {
    --refused_open_;
  } else {
    worker_group_.count_connection(counted_at, sessions_.listener_of(socket), -1);
  }
  if (moving != moves_.end()) moves_.erase(moving);
  sessions_.end(socket);
}

void ConnectionPlacement::move(session::Session& session, uint32_t shard) noexcept {
  const io::SocketId socket = session.connection().socket();
  const io::ListenerId listener = sessions_.listener_of(socket);
  worker_group_.count_connection(shard, listener, 1);
  worker_group_.count_connection(shard_, listener, -1);
  release({socket, shard, listener});
}

void ConnectionPlacement::release(const Move& move) noexcept {
  moves_.push_back(move);
  io_.release(move.socket);
}

void ConnectionPlacement::on_released(const io::Event& event) noexcept {
  const auto found = find_move(event.socket);
  ASSERT(found != moves_.end());
  const Move move = *found;
  moves_.erase(found);
  route::Handover handover{.fd = event.result, .listener = move.listener, .bytes = {}};
  if (session::Session* session = sessions_.find(event.socket)) {
    const std::span unparsed = session->unparsed();
    handover.bytes.assign(unparsed.begin(), unparsed.end());
    sessions_.end(event.socket);
  }
  mailboxes_.post(static_cast<api::ShardId>(move.target), std::move(handover));
  ++statistics_.moved;
}

session::Session* ConnectionPlacement::adopt(route::Handover& handover) noexcept {
  const auto socket = io_.adopt(handover.fd);
  if (!socket) {
    // All slots of Io are in use, which the count of all connections does not allow for long.
    io_.discard(handover.fd);
    worker_group_.count_connection(shard_, handover.listener, -1);
    ++statistics_.refused;
    return nullptr;
  }
  return &open(*socket, handover.listener, handover.bytes);
}

std::vector<ConnectionPlacement::Move>::iterator ConnectionPlacement::find_move(
    io::SocketId socket) noexcept {
  return std::find_if(moves_.begin(), moves_.end(),
                      [&](const Move& move) { return move.socket == socket; });
}

}  // namespace sluice::server
