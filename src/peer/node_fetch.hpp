// One request to one node over its REST port, on a connection of its own.
// Flow:   connect() -> on_event() -> is_answered(): answer(), with the reason if there is none ->
//         is_over(): its socket is free.
// Errors: no connection, no whole answer within `timeout_ms`, a longer one than there is room for.
// Bounds: the body takes of a room that all answers to one question share; unparsed_bytes_max of
//         what cannot be parsed yet: a head, the line before a chunk.
// Lives:  until its socket is closed; one thread only.
#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/peer_address.hpp"
#include "peer/context.hpp"
#include "peer/socket_user.hpp"
#include "wire/node_answers.hpp"
#include "wire/node_header.hpp"

namespace sluice::peer {

class NodeFetch final : public SocketUser {
 public:
  static constexpr size_t unparsed_bytes_max = 16 * 1024;

  // `node`: host and port, as its URL has them. `request`: see wire::node_request(). `room`: bytes
  // that bodies may still have; this one's become less of it. `timeout_ms`: for the whole answer.
  NodeFetch(Context& context, std::string node, std::string request, size_t& room,
            int64_t timeout_ms);

  // Nothing: its name has no address yet.
  void connect(const std::optional<io::PeerAddress>& address) noexcept;
  // Once it is answered: the address to which there was no connection.
  const std::optional<io::PeerAddress>& unreached() const noexcept { return unreached_; }
  bool is_answered() const noexcept { return is_answered_; }
  bool is_over() const noexcept { return is_answered_ && !is_open_; }
  wire::NodeAnswer& answer() noexcept { return answer_; }
  // Of its head; nothing: it is a gocc, or does not say.
  const std::optional<wire::NodeFacts>& facts() const noexcept { return facts_; }

  void on_event(const io::Event& event) noexcept override;
  void flush() noexcept override {}
  void on_tick() noexcept;
  void close() noexcept { fail("this node shuts down"); }

 private:
  void on_received(std::span<const std::byte> bytes) noexcept;
  void on_end_of_stream() noexcept;
  bool parse() noexcept;
  bool take_room() noexcept;
  void take_answer() noexcept;
  void fail(std::string_view why) noexcept;
  void end() noexcept;

  Context& context_;
  const std::string request_;
  size_t& room_;
  const int64_t timeout_ms_;
  size_t room_taken_ = 0;
  std::optional<io::PeerAddress> unreached_;
  io::SocketId socket_;
  boost::beast::http::response_parser<boost::beast::http::string_body> parser_;
  std::string unparsed_;
  wire::NodeAnswer answer_;
  std::optional<wire::NodeFacts> facts_;
  int64_t began_ms_ = 0;
  bool is_open_ = false;  // its socket
  bool is_answered_ = false;
};

}  // namespace sluice::peer
