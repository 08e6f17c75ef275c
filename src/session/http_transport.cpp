#include "session/http_transport.hpp"

#include <array>
#include <variant>

#include "base/overloaded.hpp"

namespace sluice::session {

using wire::rest_head_bytes_max;

HttpTransport::HttpTransport(Context& context, Session& session, net::Connection& connection,
                             std::span<char> log_memory) noexcept
    : SessionTransport(context, session, 0),  // it has one exchange
      connection_(connection),
      log_(log_memory, context.options.access_log) {}

uint8_t HttpTransport::kind_of(const wire::HttpRequest& request) const noexcept {
  return static_cast<uint8_t>((request.keep_alive && !context_.draining ? 0 : last) |
                              (request.http_1_0 ? http_1_0 : 0));
}

wire::ReplyContext HttpTransport::head(bool is_draining) const noexcept {
  const bool ends_early = is_draining && (kind_ & followed) == 0;
  return {.keep_alive = (kind_ & last) == 0 && !ends_early,
          .http_1_0 = (kind_ & http_1_0) != 0,
          .head_only = (kind_ & head_only) != 0,
          .wall_ns = context_.now.wall_ns};
}

// Encodes with `encode(out)` into at most `bytes_max` bytes of output.
template <typename Encode>
void HttpTransport::write(size_t bytes_max, Encode encode) noexcept {
  if (connection_.closing()) return;
  net::OutputBuffer& output = connection_.output();
  output.commit(encode(output.room(bytes_max)));
}

// One whole answer.
template <typename Encode>
void HttpTransport::write_answer(size_t bytes_max, const wire::ReplyContext& head,
                                 Encode encode) noexcept {
  write(bytes_max, [&](std::span<std::byte> out) {
    const size_t size_bytes = encode(out);
    if (log_.answered(out.first(size_bytes))) context_.work.spend(work::log_line);
    return size_bytes;
  });
  if (!head.keep_alive) is_over_ = true;
}

// --- Decisions -----------------------------------------------------------------------------

size_t HttpTransport::decision_bytes_max(uint8_t kind, size_t key_bytes) noexcept {
  return wire::decision_bytes_max(key_bytes, (kind & json) != 0);
}

void HttpTransport::write_decision(const wire::DecisionAnswer& decision) noexcept {
  // Another shard may know earlier than this one that the server shuts down.
  const bool is_draining = context_.draining || decision.verdict == api::Verdict::draining;
  const wire::ReplyContext head = this->head(is_draining);
  if (decision.verdict == api::Verdict::never_fits) log_.refused("cost exceeds maxRequests");
  write_answer(wire::decision_bytes_max(decision.key.size(), decision.json), head,
               [&](auto out) { return wire::encode_decision(decision, head, out); });
}

void HttpTransport::write_release() noexcept {
  const wire::ReplyContext head = this->head();
  write_answer(rest_head_bytes_max, head,
               [&](auto out) { return wire::encode_reply({.status = 200}, head, out); });
}

// --- Whole answers -------------------------------------------------------------------------

void HttpTransport::answer(const wire::RestAnswer& answer, const AnswerOptions& options) noexcept {
  if (const auto* decision = std::get_if<wire::DecisionAnswer>(&answer)) {
    return write_decision(*decision);
  }
  wire::ReplyContext head = this->head();
  if (options.closes) head.keep_alive = false;
  write_answer(wire::answer_bytes_max(answer), head,
               [&](auto out) { return wire::encode_answer(answer, head, out); });
  session_.on_reply_written(std::array{options.reservation});
}

void HttpTransport::write_continue() noexcept {
  write(rest_head_bytes_max, [](auto out) { return wire::encode_continue(out); });
}

void HttpTransport::write_upgrade() noexcept {
  write(rest_head_bytes_max, [](auto out) { return wire::encode_upgrade(out); });
}

void HttpTransport::write_refusal(const wire::RestReply& reply) noexcept {
  const wire::ReplyContext head{.keep_alive = false, .wall_ns = context_.now.wall_ns};
  write(rest_head_bytes_max, [&](auto out) { return wire::encode_reply(reply, head, out); });
  is_over_ = true;
}

// --- GET /debug, streamed ------------------------------------------------------------------

void HttpTransport::begin_keys(bool pretty, bool table_order) noexcept {
  stream_ = {.pretty = pretty, .chunked = (kind_ & http_1_0) == 0};
  if (!stream_.chunked || context_.draining) kind_ |= last;
  write(rest_head_bytes_max,
        [&](auto out) { return wire::encode_debug_head(stream_, table_order, head(), out); });
}

void HttpTransport::write_key(const api::KeyState& key) noexcept {
  write(wire::debug_key_bytes_max(key.key.size()),
        [&](auto out) { return wire::encode_debug_key(stream_, key, out); });
}

void HttpTransport::end_keys() noexcept {
  write(rest_head_bytes_max, [&](auto out) { return wire::encode_debug_tail(stream_, out); });
  if (log_.answered(200, stream_.body_bytes)) context_.work.spend(work::log_line);
  if ((kind_ & last) != 0) is_over_ = true;
}

bool HttpTransport::has_room() const noexcept {
  return !connection_.output_over_high();
}

}  // namespace sluice::session
