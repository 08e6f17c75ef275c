#include "session/http2_stream.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/assert.hpp"

namespace sluice::session {

using wire::Http2Error;
using wire::rest_head_bytes_max;

constexpr wire::HttpRefused too_many_bodies{
    503, "too many request bodies are under way on this connection: send fewer at once"};

Http2Stream::Http2Stream(Http2Connection& connection, wire::Http2StreamId id) noexcept
    : SessionTransport(connection.context, connection.session, static_cast<uint64_t>(id)),
      connection_(connection),
      id_(id),
      log_({}, connection.context.options.access_log),
      body_(connection.body_bytes),
      answer_(connection, id),
      started_ms_(connection.context.now_ms()) {}

Http2Stream& Http2Stream::make(Http2Connection& connection, wire::Http2StreamId id) noexcept {
  static_assert(sizeof(Http2Stream) <= base::BlockPool::block_bytes_max);
  void* const block = connection.context.blocks.take(sizeof(Http2Stream));
  ASSERT(block != nullptr);
  return *new (block) Http2Stream(connection, id);
}

void Http2Stream::Delete::operator()(Http2Stream* stream) const noexcept {
  base::BlockPool& blocks = stream->context_.blocks;
  stream->~Http2Stream();
  blocks.give(stream);
}

Http2Stream::~Http2Stream() {
  if (is_undecided() && is_logged_) log_answer(client_left, 0);
  set_outstanding(false);
  set_walking(false);
  connection_.head_bytes -= head_.size();
}

// --- The request ---------------------------------------------------------------------------

std::optional<wire::HttpRefused> Http2Stream::read_head(wire::Http2Head& head,
                                                        bool has_body) noexcept {
  if (has_body) body_.expect();
  const auto refused = head.finish(has_body, head_, request_);
  connection_.head_bytes += head_.size();
  return refused;
}

void Http2Stream::set_head(std::string&& text, const wire::HttpRequest& request) noexcept {
  head_ = std::move(text);
  request_ = request;
  connection_.head_bytes += head_.size();
}

void Http2Stream::keep_head() noexcept {
  log_.keep_view(head_, context_.now);
  is_logged_ = true;
}

RestExchange& Http2Stream::open_exchange() noexcept {
  const WaiterPlace place{.session = session_.connection().socket().index,
                          .entry_index = static_cast<uint32_t>(id_)};
  return exchange_.emplace(context_, *this, log_, connection_.tickets, place,
                           std::span<char>(key_));
}

void Http2Stream::begin(const wire::RestRequest& request) noexcept {
  const auto* reply = std::get_if<wire::RestReply>(&request);
  if (reply != nullptr && reply->closes) is_logged_ = false;  // as in refuse()
  RestExchange& exchange = open_exchange();
  count_asked(RestExchange::gathered_bytes_max(request, context_.options));
  exchange.begin(request);
  if (!body_.is_expected() && reads_body()) exchange.on_body();
  settle();
}

// As over HTTP/1.1, invalid requests have no line in the log; one that finds no room has.
void Http2Stream::refuse(const wire::HttpRefused& refused) noexcept {
  exchange_.reset();
  body_.release();
  if (refused.status < 500) is_logged_ = false;
  answer(wire::refusal_reply(refused.status, refused.cause), {});
}

void Http2Stream::on_body(std::span<const std::byte> part) noexcept {
  if (!body_.add(part, reads_body() ? exchange_->body() : nullptr)) {
    refuse(too_many_bodies);
  } else if (body_.is_large()) {
    end_large_body();
  }
}

// A client gets its answer only if that is whole before the stream ends (RFC 9113, 8.1): until then
// the body is read, and dropped.
void Http2Stream::end_large_body() noexcept {
  if (reads_body()) refuse(wire::http_fault::body_size);
  if (answer_.is_sent()) reset();
}

void Http2Stream::on_body_end() noexcept {
  body_.end();
  if (reads_body()) exchange_->on_body();
}

void Http2Stream::wait(const api::Entry& entry, uint64_t request_id, bool json) noexcept {
  if (json) key_.resize(entry.key_bytes);
  open_exchange().wait(entry, request_id, json);
}

void Http2Stream::ask_shards() noexcept {
  count_asked(exchange_->page_bytes_max());
  exchange_->ask();
}

// Until the reply is here.
void Http2Stream::count_asked(size_t bytes) noexcept {
  asked_bytes_ = bytes;
  connection_.asked_bytes += bytes;
}

void Http2Stream::settle() noexcept {
  if (exchange_) set_outstanding(exchange_->awaits_reply());
  set_walking(exchange_ && exchange_->walks());
}

void Http2Stream::set_walking(bool is_walking) noexcept {
  connection_.walks_count += uint32_t{is_walking} - uint32_t{is_walking_};
  is_walking_ = is_walking;
}

void Http2Stream::set_outstanding(bool is_outstanding) noexcept {
  connection_.outstanding_count += uint32_t{is_outstanding} - uint32_t{is_outstanding_};
  is_outstanding_ = is_outstanding;
  if (!is_outstanding) connection_.asked_bytes -= std::exchange(asked_bytes_, 0);
}

// --- The stream's end ----------------------------------------------------------------------

int64_t Http2Stream::deadline_ms() const noexcept {
  if (phase_ != Phase::open) return base::never_ms;
  const int64_t body_ms =
      body_.is_expected() ? started_ms_ + context_.options.header_timeout_ms : base::never_ms;
  return std::min(body_ms, answer_.deadline_ms(pace()));
}

// Without an error where only the rest of a body is missing (RFC 9113, 8.1).
void Http2Stream::reset() noexcept {
  if (phase_ != Phase::open) return;
  phase_ = Phase::reset;
  is_put_off_ = false;
  connection_.framing.reset(id_, answer_.is_sent() ? Http2Error::no_error : Http2Error::cancel);
}

void Http2Stream::close() noexcept {
  phase_ = Phase::closed;
  if (exchange_) exchange_->drop();
  // The client never gets the answer that names it.
  const uint64_t reservation = answer_.take_reservation();
  if (reservation != 0) context_.backend.cancel_undelivered(reservation);
  answer_.drop();
}

// --- The answer ----------------------------------------------------------------------------

void Http2Stream::log_answer(uint16_t status, uint64_t body_bytes) noexcept {
  if (log_.answered(status, body_bytes)) context_.work.spend(work::log_line);
}

void Http2Stream::write(const wire::ReplyValue& value, uint64_t reservation) noexcept {
  const wire::ReplyContext context{.head_only = request_.method == "HEAD",
                                   .wall_ns = context_.now.wall_ns};
  if (is_logged_) {
    log_answer(is_closed() ? client_left : value.head.status,
               context.head_only ? 0 : value.body.size());
  }
  answer_.write(value, context, reservation);
}

void Http2Stream::write_decision(const wire::DecisionAnswer& decision) noexcept {
  if (decision.verdict == api::Verdict::never_fits) log_.refused("cost exceeds maxRequests");
  const size_t bytes_max = wire::decision_bytes_max(decision.key.size(), decision.json);
  write(wire::reply_value(decision, context_.scratch.reply_room(bytes_max)));
}

void Http2Stream::write_release() noexcept {
  write(wire::reply_value(wire::RestReply{.status = 200}, {}));
}

void Http2Stream::answer(const wire::RestAnswer& answer, const AnswerOptions& options) noexcept {
  if (const auto* decision = std::get_if<wire::DecisionAnswer>(&answer)) {
    return write_decision(*decision);
  }
  const std::span<std::byte> room = context_.scratch.reply_room(wire::answer_bytes_max(answer));
  write(wire::reply_value(answer, room), options.reservation);
}

uint64_t Http2Stream::on_answer_sent() noexcept {
  answer_.on_sent();
  if (body_.is_large()) end_large_body();
  return answer_.take_reservation();
}

// --- GET /debug, streamed ------------------------------------------------------------------

void Http2Stream::begin_keys(bool pretty, bool table_order) noexcept {
  keys_ = {.pretty = pretty, .chunked = false};
  answer_.begin({.content_type = wire::application_json, .table_order = table_order});
  answer_.append(rest_head_bytes_max,
                 [&](auto out) { return wire::encode_debug_open(keys_, out); });
}

void Http2Stream::write_key(const api::KeyState& key) noexcept {
  answer_.append(wire::debug_key_bytes_max(key.key.size()),
                 [&](auto out) { return wire::encode_debug_key(keys_, key, out); });
}

void Http2Stream::end_keys() noexcept {
  answer_.end();
  answer_.append(rest_head_bytes_max,
                 [&](auto out) { return wire::encode_debug_tail(keys_, out); });
  if (is_logged_) log_answer(200, keys_.body_bytes);
}

bool Http2Stream::has_room() const noexcept {
  return answer_.has_room();
}

}  // namespace sluice::session
