// The REST dialect's side of an HTTP/1.1 connection: framing, order, pipelining and keep-alive.
// Flow:   HttpParser -> wire::route_request() -> an entry of the turn, or the connection's one
//         RestExchange -> HttpTransport.
// Shape:  docs/rest.md. Pipelined decisions that cannot wait go to their shards together, and are
//         answered in their order. Any other request is handled when all before it are answered,
//         and nothing behind it is parsed before it is answered itself.
// Errors: a request that breaks the stream is answered (400, 413, 417, 431, 505) and ends the
//         connection.
#pragma once

#include <memory>

#include "session/http_transport.hpp"
#include "session/pipeline.hpp"
#include "session/rest_exchange.hpp"
#include "session/session.hpp"
#include "wire/http_codec.hpp"
#include "wire/http_parser.hpp"

namespace sluice::session {

class HttpSession final : public Session {
 public:
  struct Memory {
    std::span<char> key;            // of a waiting request, if the answer will show it
    std::span<char> log;            // RequestLog::memory_bytes
    std::span<std::byte> pipeline;  // Pipeline::memory_bytes()
  };
  HttpSession(Context& context, io::Io& io, io::SocketId socket, net::ConnectionMemory& buffers,
              const Memory& memory) noexcept;
  ~HttpSession() override;

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
  bool has_undecided() const noexcept override { return !pipeline_.empty(); }
  int64_t deadline_ms() const noexcept override;
  void on_deadline() noexcept override { finish(); }

  bool is_ending() const noexcept { return connection_.finishing() || connection_.closing(); }
  bool speaks_http2(std::span<const std::byte> bytes) noexcept;
  bool upgrade(const wire::HttpRequest& request, std::string_view text) noexcept;
  void pass_on_to_http2(std::unique_ptr<Http2Upgrade> upgrade) noexcept;
  bool make_pipeline_room() noexcept;
  bool all_answered() noexcept;
  void hold_for_answers(uint32_t unanswered_count) noexcept;
  bool handle_head(const wire::HttpRequest& request, std::string_view text) noexcept;
  bool on_head(const wire::HttpRequest& request, std::string_view text) noexcept;
  void on_refused(const wire::HttpRefused& refused) noexcept;
  void on_body_end() noexcept;
  void begin_exchange(const wire::HttpRequest& request, const wire::RestRequest& asked) noexcept;
  void decide(const wire::HttpRequest& request, const wire::RestDecision& decision) noexcept;
  bool joins_pipeline(const wire::RestRequest& routed) const noexcept;
  bool is_refused(const wire::RestDecision& decision) const noexcept;
  void answer_draining(uint8_t kind, const wire::RestDecision& decision) noexcept;
  void answer_decision(uint8_t kind, const Verdicts& verdicts) noexcept;
  void refuse_with(const wire::RestReply& reply) noexcept;
  void update_flow() noexcept;

  wire::HttpParser parser_;
  HttpTransport transport_;
  TicketShare tickets_;
  RestExchange exchange_;
  Pipeline pipeline_;
  bool in_request_ = false;  // a head or body has arrived in part
  bool is_first_ = true;     // no request has arrived: it may be HTTP/2's preface
  int64_t drain_started_ms_ = 0;
  int64_t phase_started_ms_;  // when it became idle, or when the present request began
};

}  // namespace sluice::session
