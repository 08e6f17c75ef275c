#include "session/http2_stream.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/assert.hpp"

namespace sluice::session {

using wire::rest_head_bytes_max;

Http2Stream::Http2Stream(Http2Connection& connection, wire::Http2StreamId id) noexcept
    : SessionTransport(connection.context, connection.session, static_cast<uint64_t>(id)),
      connection_(connection),
      id_(id),
      log_({}, connection.context.options.access_log),
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
  connection_.unread_bytes -= answer_body_.unread_bytes();
  connection_.head_bytes -= head_.text.size();
}

// --- The request ---------------------------------------------------------------------------

void Http2Stream::keep_head() noexcept {
  log_.keep_view(head_.text, context_.now);
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
  if (!head_.awaits_body && reads_body()) exchange.on_body();
  settle();
}

// As over HTTP/1.1, invalid requests have no line in the log; one that finds no room has.
void Http2Stream::refuse(const wire::HttpRefused& refused) noexcept {
  exchange_.reset();
  release_body();
  if (refused.status < 500) is_logged_ = false;
  answer(wire::refusal_reply(refused.status, refused.cause), {});
}

bool Http2Stream::add_body(std::span<const std::byte> bytes) noexcept {
  body_bytes_ += bytes.size();
  std::string* const body = reads_body() && !has_large_body() ? exchange_->body() : nullptr;
  if (body == nullptr) return true;
  if (connection_.body_bytes + bytes.size() > kept_bytes_max) return false;
  const size_t capacity = body->capacity();
  body->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t grown = body->capacity() - capacity;
  kept_bytes_ += grown;
  connection_.body_bytes += grown;
  return true;
}

void Http2Stream::release_body() noexcept {
  connection_.body_bytes -= std::exchange(kept_bytes_, 0);
}

void Http2Stream::end_body() noexcept {
  head_.awaits_body = false;
  release_body();
  if (reads_body()) exchange_->on_body();
  settle();
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
}

void Http2Stream::set_outstanding(bool is_outstanding) noexcept {
  connection_.outstanding_count += uint32_t{is_outstanding} - uint32_t{is_outstanding_};
  is_outstanding_ = is_outstanding;
  if (!is_outstanding) connection_.asked_bytes -= std::exchange(asked_bytes_, 0);
}

void Http2Stream::close() noexcept {
  is_closed_ = true;
  release_body();
  if (exchange_) exchange_->drop();
}

// --- The answer ----------------------------------------------------------------------------

wire::ReplyContext Http2Stream::reply_context() const noexcept {
  return {.head_only = head_.request.method == "HEAD", .wall_ns = context_.now.wall_ns};
}

void Http2Stream::begin_answer() noexcept {
  ASSERT(!is_answered());
  answer_stage_ = AnswerStage::begun;
  unread_since_ms_ = context_.now_ms();
}

void Http2Stream::log_answer(uint16_t status, uint64_t body_bytes) noexcept {
  if (log_.answered(status, body_bytes)) context_.work.spend(work::log_line);
}

void Http2Stream::write(const wire::ReplyValue& value) noexcept {
  const wire::ReplyContext context = reply_context();
  const std::string_view body = context.head_only ? std::string_view{} : value.body;
  begin_answer();
  if (is_logged_) log_answer(is_closed_ ? client_left : value.head.status, body.size());
  if (is_closed_) return;
  answer_body_.set(body);
  connection_.unread_bytes += body.size();
  std::optional<size_t> body_bytes;
  if (wire::has_length(value.head, context)) body_bytes = value.body.size();
  connection_.framing.answer(id_, {.head = value.head,
                                   .wall_ns = context.wall_ns,
                                   .body_bytes = body_bytes,
                                   .has_body = !body.empty()});
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
  reservation_ = options.reservation;
  const std::span<std::byte> room = context_.scratch.reply_room(wire::answer_bytes_max(answer));
  write(wire::reply_value(answer, room));
}

wire::Http2Events::BodyPart Http2Stream::read_body(std::span<std::byte> out) noexcept {
  const size_t bytes = answer_body_.read(out);
  connection_.unread_bytes -= bytes;
  unread_since_ms_ = context_.now_ms();
  return {.bytes = bytes, .is_last = answer_body_.is_read()};
}

// --- GET /debug, streamed ------------------------------------------------------------------

template <typename Encode>
void Http2Stream::write_part(size_t bytes_max, Encode encode) noexcept {
  connection_.unread_bytes += answer_body_.append(bytes_max, encode);
  if (!is_closed_) connection_.framing.resume(id_);
}

void Http2Stream::begin_keys(bool pretty, bool table_order) noexcept {
  keys_ = {.pretty = pretty, .chunked = false};
  begin_answer();
  if (!is_closed_) {
    connection_.framing.answer(
        id_, {.head = {.content_type = wire::application_json, .table_order = table_order},
              .wall_ns = context_.now.wall_ns,
              .body_bytes = std::nullopt,
              .has_body = true});
  }
  write_part(rest_head_bytes_max, [&](auto out) { return wire::encode_debug_open(keys_, out); });
}

void Http2Stream::write_key(const api::KeyState& key) noexcept {
  write_part(wire::debug_key_bytes_max(key.key.size()),
             [&](auto out) { return wire::encode_debug_key(keys_, key, out); });
}

void Http2Stream::end_keys() noexcept {
  answer_body_.end();
  write_part(rest_head_bytes_max, [&](auto out) { return wire::encode_debug_tail(keys_, out); });
  if (is_logged_) log_answer(200, keys_.body_bytes);
}

bool Http2Stream::has_room() const noexcept {
  return answer_body_.has_room();
}

}  // namespace sluice::session
