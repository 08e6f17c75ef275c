// The REST dialect's side of an HTTP/1.1 connection: framing, order, pipelining and keep-alive.
// Flow:   HttpParser -> wire::route_request() -> an entry of the turn, or the connection's one
//         RestExchange -> HttpTransport.
// Shape:  docs/rest.md. Requests that cannot wait are decided together however many are pipelined;
//         nothing behind one that may wait, or that has an open exchange, is parsed before that one
//         is answered.
// Errors: a request that breaks the stream is answered (400, 413, 417, 431, 505) and ends the
//         connection.
#pragma once

#include <memory>

#include "session/http_transport.hpp"
#include "session/rest_exchange.hpp"
#include "session/session.hpp"
#include "wire/http_codec.hpp"
#include "wire/http_parser.hpp"

namespace sluice::session {

class HttpSession final : public Session {
 public:
  // `key_memory` keeps the key of a waiting request if the answer will show it, `log_memory`
  // (RequestLog::memory_bytes) the heads of requests that are not answered yet.
  HttpSession(Context& context, io::Io& io, io::SocketId socket, net::ConnectionMemory& memory,
              std::span<char> key_memory, std::span<char> log_memory) noexcept;

  void on_verdicts(const route::Request& request, const Verdicts& verdicts) noexcept override;
  void on_granted(WaitingEntry& entry, const api::Grant& grant) noexcept override;
  void on_inspected(uint64_t id, const api::KeyState* state) noexcept override;
  void on_page(uint64_t id, std::span<const api::KeyState> keys,
               uint64_t next_cursor) noexcept override;
  void on_counted(uint64_t id, uint64_t keys_count) noexcept override;
  void on_text(uint64_t id, std::string_view content_type, std::string_view text) noexcept override;
  void on_quota(uint64_t id, const api::QuotaBatch& batch) noexcept override;
  void begin_drain() noexcept override;

 private:
  size_t take(std::span<const std::byte> bytes) noexcept override;
  void write_refusal() noexcept override;
  void write_outcomes() noexcept override;
  void drop_waiting() noexcept override { exchange_.drop(); }
  bool has_waiting() const noexcept override { return exchange_.is_waiting(); }
  bool has_undecided() const noexcept override { return undecided_ > 0; }
  int64_t deadline_ms() const noexcept override;
  void on_deadline() noexcept override { finish(); }

  bool is_ending() const noexcept { return connection_.finishing() || connection_.closing(); }
  bool speaks_http2(std::span<const std::byte> bytes) noexcept;
  bool upgrade(const wire::HttpRequest& request, std::string_view text) noexcept;
  void pass_on_to_http2(std::unique_ptr<Http2Upgrade> upgrade) noexcept;
  void on_head(const wire::HttpRequest& request, std::string_view text) noexcept;
  void on_refused(const wire::HttpRefused& refused) noexcept;
  void on_body_end() noexcept;
  void begin_exchange(const wire::HttpRequest& request, const wire::RestRequest& asked) noexcept;
  void decide(const wire::HttpRequest& request, const wire::RestDecision& decision) noexcept;
  void answer_earlier_requests() noexcept;
  void refuse_with(const wire::RestReply& reply) noexcept;
  void update_flow() noexcept;

  wire::HttpParser parser_;
  HttpTransport transport_;
  TicketShare tickets_;
  RestExchange exchange_;
  uint32_t undecided_ = 0;   // requests of the turn
  bool in_request_ = false;  // a head or body has arrived in part
  bool is_first_ = true;     // no request has arrived: it may be HTTP/2's preface
  int64_t drain_started_ms_ = 0;
  int64_t phase_started_ms_;  // when it became idle, or when the present request began
};

}  // namespace sluice::session
