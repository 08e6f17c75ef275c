// A worker's SimIo, with a ConnectionWatch between the two: the watch sees every event before the
// worker does, and every call on a connection.
// Lives:  beside its SimIo, which it refers to.
#pragma once

#include <map>
#include <utility>

#include "connection_watch.hpp"
#include "io/sim/sim_io.hpp"

namespace sluice::simulation {

class WatchedIo final : public io::Io {
 public:
  WatchedIo(io::SimIo& io, ConnectionWatch& watch, uint32_t shard)
      : io_(io), watch_(watch), shard_(shard) {}

  std::string_view name() const noexcept override { return io_.name(); }
  void accept_start(io::ListenerId listener) noexcept override { io_.accept_start(listener); }
  void accept_finish(io::ListenerId listener) noexcept override { io_.accept_finish(listener); }
  tl::expected<io::SocketId, int32_t> connect(const io::PeerAddress& peer) noexcept override {
    const auto socket = io_.connect(peer);
    if (socket) links_[key_of(*socket)] = io_.link_of(*socket);
    return socket;
  }
  void receive_start(io::SocketId socket) noexcept override {
    watch_.on_receive_start(link_of(socket), now_ms());
    io_.receive_start(socket);
  }
  void receive_stop(io::SocketId socket) noexcept override { io_.receive_stop(socket); }
  std::optional<std::span<std::byte>> receive_now(io::SocketId socket,
                                                  size_t bytes_max) noexcept override {
    const auto bytes = io_.receive_now(socket, bytes_max);
    if (bytes) watch_.on_delivered(link_of(socket), bytes->size(), now_ms());
    return bytes;
  }
  void send(io::SocketId socket, std::span<const std::byte> bytes) noexcept override {
    watch_.on_send(link_of(socket), bytes, now_ms());
    io_.send(socket, bytes);
  }
  void send_finish(io::SocketId socket) noexcept override {
    watch_.on_finish(link_of(socket), now_ms());
    io_.send_finish(socket);
  }
  void close(io::SocketId socket) noexcept override {
    watch_.on_close(link_of(socket), now_ms());
    io_.close(socket);
  }
  void release(io::SocketId socket) noexcept override {
    watch_.on_release(link_of(socket));
    io_.release(socket);
  }
  std::optional<io::SocketId> adopt(int fd) noexcept override {
    const auto socket = io_.adopt(fd);
    adopted_ = socket.has_value();
    if (!socket) return socket;
    const auto link = static_cast<uint32_t>(fd);
    links_[key_of(*socket)] = link;
    watch_.on_adopted(shard_, link, *socket, now_ms());
    return socket;
  }
  void discard(int fd) noexcept override {
    watch_.on_discard(static_cast<uint32_t>(fd), adopted_);
    io_.discard(fd);
  }
  std::string peer(io::SocketId socket) noexcept override { return io_.peer(socket); }
  size_t poll(std::span<io::Event> events, int64_t wait_ns) noexcept override {
    io_.receive_sparingly(receives_sparingly());
    const size_t count = io_.poll(events, wait_ns);
    watch_.begin_turn(shard_, wait_ns > 0, now_ms());
    for (const io::Event& event : events.first(count)) watch(event);
    return count;
  }
  base::Now now() const noexcept override { return io_.now(); }
  void wake() noexcept override { io_.wake(); }
  bool is_quiet() const noexcept override { return io_.is_quiet(); }
  int64_t pause() noexcept override { return io_.pause(); }
  const io::Statistics& statistics() const noexcept override { return io_.statistics(); }

  int64_t now_ms() const { return base::floor_ms(io_.now().monotonic_ns); }

 private:
  using Key = std::pair<uint32_t, uint32_t>;

  static Key key_of(io::SocketId socket) { return {socket.index, socket.generation}; }
  uint32_t link_of(io::SocketId socket) const { return links_.at(key_of(socket)); }

  void watch(const io::Event& event) {
    using enum io::EventKind;
    if (event.kind == woken || event.kind == accept_failed || event.kind == listener_closed) return;
    if (event.kind == accepted) links_[key_of(event.socket)] = io_.link_of(event.socket);
    watch_.on_event(shard_, link_of(event.socket), event, now_ms());
    if (event.kind == closed || event.kind == released) links_.erase(key_of(event.socket));
  }

  io::SimIo& io_;
  ConnectionWatch& watch_;
  const uint32_t shard_;
  std::map<Key, uint32_t> links_;
  bool adopted_ = false;  // by the last adopt()
};

}  // namespace sluice::simulation
