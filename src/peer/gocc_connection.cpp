#include "peer/gocc_connection.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/time.hpp"

namespace sluice::peer {
namespace {

constexpr int64_t health_check_after_ms = 10'000;  // without a request
constexpr size_t body_bytes_max = 64;              // an id has 20 digits at most

}  // namespace

GoccConnection::GoccConnection(Context& context, net::ConnectionMemory& memory, uint32_t place,
                               std::string authority, Listener& listener)
    : context_(context),
      memory_(memory),
      place_(place),
      authority_(std::move(authority)),
      listener_(listener) {}

GoccConnection::~GoccConnection() {
  ASSERT(streams_.empty());
}

void GoccConnection::connect(const io::PeerAddress& address) noexcept {
  received_ms_ = owed_since_ms_ = asked_ms_ = context_.now_ms;
  const auto socket = context_.io.connect(address);
  if (!socket) {
    state_ = State::closed;
    why_lost_ = std::strerror(-socket.error());
    return;
  }
  socket_ = *socket;
  context_.use(socket_, *this);
}

void GoccConnection::on_event(const io::Event& event) noexcept {
  switch (event.kind) {
    case io::EventKind::connected:
      return on_connected();
    case io::EventKind::received:
      return on_received(event.bytes);
    case io::EventKind::sent:
      if (!connection_) return;
      connection_->on_sent(event.result);
      if (connection_->broken()) return lose("a send has failed");
      return context_.mark_dirty(*this);
    case io::EventKind::end_of_stream:
    case io::EventKind::hung_up:
      return lose("the connection has ended");
    case io::EventKind::failed:
      return lose(std::strerror(-event.result));
    case io::EventKind::closed:
      connection_.reset();
      state_ = State::closed;
      context_.has_changed = true;
      return;
    default:
      return;
  }
}

void GoccConnection::on_connected() noexcept {
  if (state_ != State::connecting) return;
  connection_.emplace(context_.io, socket_, memory_, place_);
  connection_->start_reading();
  client_.emplace(*this);
  state_ = State::open;
  received_ms_ = context_.now_ms;
  context_.has_changed = true;
  context_.mark_dirty(*this);
}

void GoccConnection::on_received(std::span<const std::byte> bytes) noexcept {
  if (state_ != State::open) return;
  received_ms_ = context_.now_ms;
  context_.mark_dirty(*this);
  const bool took_requests = client_->takes_requests();
  if (!client_->receive(bytes)) return lose("it has ended the connection");
  // The link may have requests for it.
  if (!took_requests && client_->takes_requests()) context_.has_changed = true;
}

void GoccConnection::ask(const GoccRequest& request, const Asked& asked) noexcept {
  open_stream(request, {.asked = asked, .body = {}});
}

void GoccConnection::open_stream(const GoccRequest& request, Stream stream) noexcept {
  asked_ms_ = context_.now_ms;
  const int32_t id = client_->request({.method = request.method,
                                       .path = request.path,
                                       .authority = authority_,
                                       .correlation_id = request.correlation_id});
  if (id < 0) {
    if (!stream.is_health_check) listener_.on_answer(stream.asked, End::not_processed, {});
    return;
  }
  if (streams_.empty() && !is_pinged_) owed_since_ms_ = context_.now_ms;
  streams_.emplace(id, std::move(stream));
  context_.mark_dirty(*this);
}

bool GoccConnection::cancel(api::WaiterId waiter) noexcept {
  const auto at = std::ranges::find_if(
      streams_, [&](const auto& stream) { return stream.second.asked.waiter == waiter; });
  if (at == streams_.end()) return false;
  at->second.asked.is_withdrawn = true;
  client_->cancel(at->first);
  context_.mark_dirty(*this);
  return true;
}

void GoccConnection::flush() noexcept {
  if (state_ != State::open) return;
  net::OutputBuffer& output = connection_->output();
  while (!connection_->output_over_high()) {
    const auto bytes = client_->next();
    if (bytes.empty()) break;
    std::memcpy(output.room(bytes.size()).data(), bytes.data(), bytes.size());
    output.commit(bytes.size());
    client_->taken(bytes.size());
  }
  if (!client_->is_open()) return lose("it has ended the connection");
  connection_->flush(context_.now_ms);
}

void GoccConnection::on_tick() noexcept {
  if (state_ == State::connecting &&
      context_.now_ms - received_ms_ >= context_.options.silence_ms) {
    return lose("it does not answer");
  }
  if (state_ != State::open) return;
  for (const auto& [id, stream] : streams_) {
    if (stream.asked.waiter == api::no_waiter || context_.now_ms < stream.asked.due_ms) continue;
    client_->cancel(id);
    context_.mark_dirty(*this);
  }
  const bool is_idle = context_.now_ms - asked_ms_ >= health_check_after_ms;
  if (is_idle && client_->takes_requests()) {
    open_stream({.method = "GET", .path = "/healthz", .correlation_id = {}},
                {.is_health_check = true, .body = {}});
  }
  if (streams_.empty() && !is_pinged_) return;
  const int64_t silence_ms = context_.options.silence_ms;
  const int64_t quiet_ms = context_.now_ms - std::max(received_ms_, owed_since_ms_);
  if (quiet_ms >= silence_ms) return lose("silent");
  if (is_pinged_ || quiet_ms < silence_ms / 3) return;
  is_pinged_ = true;
  client_->ping();
  context_.mark_dirty(*this);
}

void GoccConnection::lose(std::string_view why) noexcept {
  if (state_ == State::lost || state_ == State::closed) return;
  state_ = State::lost;
  why_lost_ = why;
  context_.has_changed = true;
  const auto streams = std::exchange(streams_, {});
  for (const auto& [id, stream] : streams) {
    if (!stream.is_health_check) listener_.on_answer(stream.asked, End::failed, {});
  }
  if (connection_) {
    connection_->close();
  } else {
    context_.io.close(socket_);
  }
}

// --- Answers -------------------------------------------------------------------------------

void GoccConnection::on_status(int32_t id, uint16_t status) noexcept {
  if (const auto at = streams_.find(id); at != streams_.end()) at->second.status = status;
}

void GoccConnection::on_body(int32_t id, std::span<const std::byte> bytes) noexcept {
  const auto at = streams_.find(id);
  if (at == streams_.end()) return;
  std::string& body = at->second.body;
  const size_t more = std::min(bytes.size(), body_bytes_max - body.size());
  body.append(reinterpret_cast<const char*>(bytes.data()), more);
}

void GoccConnection::on_end(int32_t id, End end) noexcept {
  const auto at = streams_.find(id);
  if (at == streams_.end()) return;
  const Stream stream = std::move(at->second);
  streams_.erase(at);
  if (stream.is_health_check) return;
  // A stream may also end without an error before it has an answer.
  if (end == End::answered && stream.status < 200) end = End::failed;
  listener_.on_answer(stream.asked, end, {.status = stream.status, .body = stream.body});
}

}  // namespace sluice::peer
