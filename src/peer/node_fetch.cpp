#include "peer/node_fetch.hpp"

#include <boost/beast/http/string_body.hpp>
#include <cstring>
#include <utility>

#include "wire/content_type.hpp"

namespace sluice::peer {

namespace http = boost::beast::http;

NodeFetch::NodeFetch(Context& context, std::string node, std::string request, size_t& room,
                     int64_t timeout_ms)
    : context_(context), request_(std::move(request)), room_(room), timeout_ms_(timeout_ms) {
  answer_.node = std::move(node);
  parser_.body_limit(room);
  parser_.eager(true);
}

void NodeFetch::connect(const std::optional<io::PeerAddress>& address) noexcept {
  began_ms_ = context_.now_ms;
  if (!address) return fail("its name has no address yet");
  const auto socket = context_.io.connect(*address);
  if (!socket) return fail(std::strerror(-socket.error()));
  unreached_ = address;
  socket_ = *socket;
  is_open_ = true;
  context_.use(socket_, *this);
}

void NodeFetch::on_event(const io::Event& event) noexcept {
  switch (event.kind) {
    case io::EventKind::connected:
      unreached_.reset();
      if (is_answered_) return;
      context_.io.receive_start(socket_);
      context_.io.send(socket_, std::as_bytes(std::span(request_)));
      return;
    case io::EventKind::received:
      return on_received(event.bytes);
    case io::EventKind::end_of_stream:
      return on_end_of_stream();
    case io::EventKind::hung_up:
      return fail("it has ended the connection");
    case io::EventKind::sent:
      if (event.result < 0) fail(std::strerror(-event.result));
      return;
    case io::EventKind::failed:
      return fail(std::strerror(-event.result));
    case io::EventKind::closed:
      is_open_ = false;
      context_.has_changed = true;
      return;
    default:
      return;
  }
}

void NodeFetch::on_tick() noexcept {
  if (context_.now_ms - began_ms_ >= timeout_ms_) fail("it does not answer");
}

// --- The answer ----------------------------------------------------------------------------

void NodeFetch::on_received(std::span<const std::byte> bytes) noexcept {
  if (is_answered_) return;
  unparsed_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (parse() && parser_.is_done()) take_answer();
}

// A body without a length ends with the connection.
void NodeFetch::on_end_of_stream() noexcept {
  if (is_answered_) return;
  boost::beast::error_code error = http::error::end_of_stream;
  if (parser_.got_some()) parser_.put_eof(error);
  if (error || !parser_.is_done()) return fail("it has ended the connection");
  take_answer();
}

// False: what it sends is no answer, or one that is too long.
bool NodeFetch::parse() noexcept {
  while (!unparsed_.empty() && !parser_.is_done()) {
    boost::beast::error_code error;
    const size_t parsed = parser_.put(boost::asio::buffer(unparsed_), error);
    unparsed_.erase(0, parsed);
    if (error == http::error::body_limit || !take_room()) {
      fail(wire::answer_too_long);
      return false;
    }
    if (error == http::error::need_more) break;
    if (error) {
      fail("its answer is no HTTP");
      return false;
    }
  }
  if (unparsed_.size() <= unparsed_bytes_max) return true;
  fail("a line of its answer is too long");
  return false;
}

// For what has come of the body. False: there is not as much.
bool NodeFetch::take_room() noexcept {
  const size_t more = parser_.get().body().size() - room_taken_;
  if (more > room_) return false;
  room_ -= more;
  room_taken_ += more;
  return true;
}

void NodeFetch::take_answer() noexcept {
  auto& message = parser_.get();
  answer_.status = static_cast<uint16_t>(message.result_int());
  const auto type = message[http::field::content_type];
  const std::string_view text(type.data(), type.size());
  answer_.is_json =
      text.starts_with(wire::application_json) || text.starts_with("application/problem+json");
  const boost::beast::string_view name(wire::node_header_name.data(),
                                       wire::node_header_name.size());
  const auto node = message[name];
  facts_ = wire::parse_node_header({node.data(), node.size()});
  answer_.body = std::move(message.body());
  end();
}

void NodeFetch::fail(std::string_view why) noexcept {
  if (is_answered_) return;
  answer_.reason = why;
  parser_.get().body() = {};
  room_ += std::exchange(room_taken_, 0);
  end();
}

void NodeFetch::end() noexcept {
  is_answered_ = true;
  context_.has_changed = true;
  if (is_open_) context_.io.close(socket_);
}

}  // namespace sluice::peer
