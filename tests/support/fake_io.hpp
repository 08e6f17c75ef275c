// An Io that records its calls and reports the events that the test gives it.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "io/io.hpp"

namespace sluice::support {

class FakeIo final : public io::Io {
 public:
  explicit FakeIo(base::Now time = {}) noexcept : time_(time) {}

  std::string_view name() const noexcept override { return "fake"; }
  void accept_start(io::ListenerId) noexcept override { calls.push_back("accept_start"); }
  void accept_finish(io::ListenerId) noexcept override { calls.push_back("accept_finish"); }
  tl::expected<io::SocketId, int32_t> connect(const io::PeerAddress& peer) noexcept override {
    calls.push_back("connect");
    if (connect_error != 0) return tl::make_unexpected(connect_error);
    connected_to.push_back(peer);
    return io::SocketId{.index = static_cast<uint32_t>(connected_to.size() - 1)};
  }
  void receive_start(io::SocketId) noexcept override { calls.push_back("receive_start"); }
  void receive_stop(io::SocketId) noexcept override { calls.push_back("receive_stop"); }
  std::optional<std::span<std::byte>> receive_now(io::SocketId, size_t) noexcept override {
    return {};
  }
  void send(io::SocketId socket, std::span<const std::byte> bytes) noexcept override {
    calls.push_back("send");
    sent_by.push_back(socket.index);
    sent.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void send_finish(io::SocketId) noexcept override { calls.push_back("send_finish"); }
  void close(io::SocketId socket) noexcept override {
    calls.push_back("close");
    closed.push_back(socket);
  }
  void release(io::SocketId) noexcept override { calls.push_back("release"); }
  std::optional<io::SocketId> adopt(int) noexcept override {
    calls.push_back("adopt");
    return {};
  }
  void discard(int) noexcept override { calls.push_back("discard"); }
  std::string peer(io::SocketId) noexcept override { return "fake"; }
  size_t poll(std::span<io::Event> reported, int64_t) noexcept override {
    const size_t count = std::min(reported.size(), events.size());
    std::copy_n(events.begin(), count, reported.begin());
    events.clear();
    return count;
  }
  base::Now now() const noexcept override { return time_; }
  void wake() noexcept override { ++wakes; }
  bool is_quiet() const noexcept override { return events.empty(); }
  int64_t pause() noexcept override { return 0; }
  const io::Statistics& statistics() const noexcept override { return statistics_; }

  std::vector<io::Event> events;  // of the next poll()
  int wakes = 0;
  std::vector<std::string> calls;
  std::vector<std::string> sent;
  std::vector<uint32_t> sent_by;              // the sockets of `sent`, by index
  std::vector<io::SocketId> closed;           // close() was called
  std::vector<io::PeerAddress> connected_to;  // by the index of the socket
  int32_t connect_error = 0;                  // of the next connect(); 0: it begins

 private:
  const base::Now time_;
  io::Statistics statistics_;
};

}  // namespace sluice::support
