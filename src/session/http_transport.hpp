// Writes the answers of an HTTP/1.1 connection, and asks the shards on behalf of the one exchange
// that may be open on it.
// Flow:   RestExchange, and decisions that need none -> the connection's output; the log; the
//         reservation that an answer names -> the session.
// Shape:  answers are written in the order of their requests; one with `Connection: close` is the
//         last.
// Lives:  as long as its session, which sends what was written and ends the connection.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "session/context.hpp"
#include "session/request_log.hpp"
#include "session/session.hpp"
#include "session/session_transport.hpp"
#include "wire/http_codec.hpp"

namespace sluice::session {

class HttpTransport final : public SessionTransport {
 public:
  // What the answer to a request depends on: bits of route::Request::kind. One that is followed
  // has requests behind it that are being decided: it does not end the connection while draining.
  enum Kind : uint8_t { json = 1, last = 2, http_1_0 = 4, head_only = 8, followed = 16 };

  HttpTransport(Context& context, Session& session, net::Connection& connection,
                std::span<char> log_memory) noexcept;

  RequestLog& log() noexcept { return log_; }
  uint8_t kind_of(const wire::HttpRequest& request) const noexcept;

  // The kind of the request that is answered next.
  void begin(uint8_t kind) noexcept { kind_ = kind; }

  // For a /rate request that needed no exchange.
  void write_decision(const wire::DecisionAnswer& decision) noexcept;
  void write_release() noexcept;
  static size_t decision_bytes_max(uint8_t kind, size_t key_bytes) noexcept;

  // `100 Continue`; `101 Switching Protocols`, after which the bytes are HTTP/2's.
  void write_continue() noexcept;
  void write_upgrade() noexcept;
  // The answer to what breaks the stream, and the last one. That was no request, so it is not
  // logged.
  void write_refusal(const wire::RestReply& reply) noexcept;

  // Whether the last answer is written.
  bool is_over() const noexcept { return is_over_; }

  void answer(const wire::RestAnswer& answer, const AnswerOptions& options) noexcept override;
  void begin_keys(bool pretty, bool table_order) noexcept override;
  void write_key(const api::KeyState& key) noexcept override;
  void end_keys() noexcept override;
  bool has_room() const noexcept override;

 private:
  wire::ReplyContext head() const noexcept { return head(context_.draining); }
  wire::ReplyContext head(bool is_draining) const noexcept;
  template <typename Encode>
  void write(size_t bytes_max, Encode encode) noexcept;
  template <typename Encode>
  void write_answer(size_t bytes_max, const wire::ReplyContext& head, Encode encode) noexcept;

  net::Connection& connection_;
  RequestLog log_;
  wire::DebugStream stream_;
  uint8_t kind_ = 0;  // of the request that is answered
  bool is_over_ = false;
};

}  // namespace sluice::session
