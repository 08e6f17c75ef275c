#include "peer/probe.hpp"

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstring>
#include <utility>

namespace sluice::peer {
namespace {

namespace http = boost::beast::http;

constexpr size_t answer_bytes_max = 16 * 1024;

}  // namespace

Probe::Probe(Context& context, net::ConnectionMemory& memory, uint32_t place, std::string host)
    : context_(context), memory_(memory), place_(place), host_(std::move(host)) {}

void Probe::connect(const io::PeerAddress& address) noexcept {
  began_ms_ = context_.now_ms;
  address_ = address;
  const auto socket = context_.io.connect(address);
  if (socket) {
    socket_ = *socket;
    context_.use(socket_, *this);
    return;
  }
  state_ = State::failed;
  why_ = std::strerror(-socket.error());
  is_over_ = true;
}

void Probe::on_event(const io::Event& event) noexcept {
  switch (event.kind) {
    case io::EventKind::connected:
      if (state_ == State::asking) ask();
      return;
    case io::EventKind::received:
      return on_received(event.bytes);
    case io::EventKind::sent:
      connection_->on_sent(event.result);
      return;
    case io::EventKind::end_of_stream:
    case io::EventKind::hung_up:
      return end(State::failed, "it ends the connection without an answer");
    case io::EventKind::failed:
      return end(State::failed, std::strerror(-event.result));
    case io::EventKind::closed:
      connection_.reset();
      is_over_ = true;
      context_.has_changed = true;
      return;
    default:
      return;
  }
}

void Probe::ask() noexcept {
  connection_.emplace(context_.io, socket_, memory_, place_);
  connection_->start_reading();
  const std::string text =
      "GET /healthz HTTP/1.1\r\nHost: " + host_ + "\r\nConnection: close\r\n\r\n";
  const auto room = connection_->output().room(text.size());
  std::memcpy(room.data(), text.data(), text.size());
  connection_->output().commit(text.size());
  context_.mark_dirty(*this);
}

void Probe::on_received(std::span<const std::byte> bytes) noexcept {
  if (state_ != State::asking) return;
  answer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  http::response_parser<http::empty_body> parser;
  parser.skip(true);  // the head is all that is needed
  boost::beast::error_code error;
  parser.put(boost::asio::buffer(answer_), error);
  if (error == http::error::need_more && answer_.size() <= answer_bytes_max) return;
  if (error || !parser.is_header_done()) return end(State::failed, "its answer is no HTTP");
  const auto& head = parser.get();
  if (head.result() != http::status::ok) {
    return end(State::failed, "/healthz answers " + std::to_string(head.result_int()));
  }
  if (const auto at = head.find(
          boost::beast::string_view(wire::node_header_name.data(), wire::node_header_name.size()));
      at != head.end()) {
    facts_ = wire::parse_node_header({at->value().data(), at->value().size()});
    if (!facts_) return end(State::failed, "its header Sluicegate-Node has an unknown form");
  }
  end(State::answered, "");
}

void Probe::end(State state, std::string_view why) noexcept {
  if (state_ != State::asking) return;
  state_ = state;
  why_ = why;
  if (connection_) {
    connection_->close();
  } else {
    context_.io.close(socket_);
  }
}

void Probe::on_tick() noexcept {
  if (context_.now_ms - began_ms_ >= context_.options.silence_ms) {
    end(State::failed, "it does not answer");
  }
}

void Probe::flush() noexcept {
  if (connection_ && !connection_->closing()) connection_->flush(context_.now_ms);
}

}  // namespace sluice::peer
