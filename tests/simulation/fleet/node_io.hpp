// A worker's SimIo that remembers which connections its node has between two workers, so that they
// end when it crashes.
// Lives:  beside its SimIo, which it refers to; `in_transit` is the node's.
#pragma once

#include <set>

#include "io/sim/sim_io.hpp"

namespace sluice::simulation {

class NodeIo final : public io::Io {
 public:
  NodeIo(io::SimIo& io, std::set<int>& in_transit) : io_(io), in_transit_(in_transit) {}

  std::string_view name() const noexcept override { return io_.name(); }
  void accept_start(io::ListenerId listener) noexcept override { io_.accept_start(listener); }
  void accept_finish(io::ListenerId listener) noexcept override { io_.accept_finish(listener); }
  tl::expected<io::SocketId, int32_t> connect(const io::PeerAddress& peer) noexcept override {
    return io_.connect(peer);
  }
  void receive_start(io::SocketId socket) noexcept override { io_.receive_start(socket); }
  void receive_stop(io::SocketId socket) noexcept override { io_.receive_stop(socket); }
  std::optional<std::span<std::byte>> receive_now(io::SocketId socket,
                                                  size_t bytes_max) noexcept override {
    return io_.receive_now(socket, bytes_max);
  }
  void send(io::SocketId socket, std::span<const std::byte> bytes) noexcept override {
    io_.send(socket, bytes);
  }
  void send_finish(io::SocketId socket) noexcept override { io_.send_finish(socket); }
  void close(io::SocketId socket) noexcept override { io_.close(socket); }
  void release(io::SocketId socket) noexcept override { io_.release(socket); }
  std::optional<io::SocketId> adopt(int fd) noexcept override {
    const auto socket = io_.adopt(fd);
    if (socket) in_transit_.erase(fd);
    return socket;
  }
  void discard(int fd) noexcept override {
    in_transit_.erase(fd);
    io_.discard(fd);
  }
  std::string peer(io::SocketId socket) noexcept override { return io_.peer(socket); }
  size_t poll(std::span<io::Event> events, int64_t wait_ns) noexcept override {
    io_.receive_sparingly(receives_sparingly());
    const size_t count = io_.poll(events, wait_ns);
    for (const io::Event& event : events.first(count)) {
      if (event.kind == io::EventKind::released) in_transit_.insert(event.result);
    }
    return count;
  }
  base::Now now() const noexcept override { return io_.now(); }
  void wake() noexcept override { io_.wake(); }
  bool is_quiet() const noexcept override { return io_.is_quiet(); }
  int64_t pause() noexcept override { return io_.pause(); }
  const io::Statistics& statistics() const noexcept override { return io_.statistics(); }

 private:
  io::SimIo& io_;
  std::set<int>& in_transit_;
};

}  // namespace sluice::simulation
