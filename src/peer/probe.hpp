// Asks another node what it is: GET /healthz over its REST port.
// Flow:   connect() -> `asking` -> `answered`: facts(); or `failed`: why().
// Errors: no connection, no answer with status 200 within --peer-silence-millis.
// Lives:  until its socket is closed; one thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/peer_address.hpp"
#include "net/connection.hpp"
#include "peer/context.hpp"
#include "peer/socket_user.hpp"
#include "wire/node_header.hpp"

namespace sluice::peer {

class Probe final : public SocketUser {
 public:
  enum class State : uint8_t { asking, answered, failed };

  // `place`: of its buffers in `memory`. `host`: with the port, as the node's URL has it.
  Probe(Context& context, net::ConnectionMemory& memory, uint32_t place, std::string host);

  void connect(const io::PeerAddress& address) noexcept;
  State state() const noexcept { return state_; }
  // Its socket is free.
  bool is_over() const noexcept { return is_over_; }
  // Of an answer; nothing: it is a gocc.
  const std::optional<wire::NodeFacts>& facts() const noexcept { return facts_; }
  const std::string& why_failed() const noexcept { return why_; }
  const io::PeerAddress& address() const noexcept { return address_; }

  void on_event(const io::Event& event) noexcept override;
  void flush() noexcept override;
  void on_tick() noexcept;
  void close() noexcept { end(State::failed, "this node shuts down"); }

 private:
  void ask() noexcept;
  void on_received(std::span<const std::byte> bytes) noexcept;
  void end(State state, std::string_view why) noexcept;

  Context& context_;
  net::ConnectionMemory& memory_;
  const uint32_t place_;
  const std::string host_;
  State state_ = State::asking;
  io::PeerAddress address_;
  io::SocketId socket_;
  std::optional<net::Connection> connection_;
  std::string answer_;
  std::optional<wire::NodeFacts> facts_;
  std::string why_;
  int64_t began_ms_ = 0;
  bool is_over_ = false;
};

}  // namespace sluice::peer
