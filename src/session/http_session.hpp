// The REST dialect's side of a connection: requests in, responses out, in the order asked.
// Flow:   HttpParser -> wire::route_request() -> an entry of the turn -> the response; a waiting
//         request's response is held until its grant. Quotas: http_session_quota.cpp.
// Shape:  docs/rest.md. Requests that cannot wait are decided together however many are pipelined;
//         nothing behind one that may wait is looked at before that one is answered.
// Errors: what breaks the stream is answered (400, 413, 417, 431, 505) and ends the connection.
#pragma once

#include <memory>

#include "session/debug_walk.hpp"
#include "session/http_quota.hpp"
#include "session/request_log.hpp"
#include "session/session.hpp"
#include "session/told_list.hpp"
#include "wire/http_codec.hpp"
#include "wire/http_parser.hpp"

namespace sluice::session {

class HttpSession final : public Session {
 public:
  // `key_memory` keeps the key of a waiting request whose answer will show it, `log_memory`
  // (RequestLog::memory_bytes) the heads of requests that are not answered yet.
  HttpSession(Context& context, io::Io& io, io::SocketId socket, net::ConnectionMemory& memory,
              std::span<char> key_memory, std::span<char> log_memory) noexcept;
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
  // Bits of route::Request::kind: how the answer will look.
  enum Kind : uint8_t { json = 1, last = 2, http_1_0 = 4 };

  size_t take(std::span<const std::byte> bytes) noexcept override;
  void write_refusal() noexcept override;
  void write_settled() noexcept override;
  void drop_waiting() noexcept override;
  void on_lost(const LostSend& lost) noexcept override;
  bool has_waiting() const noexcept override {
    return ticket_ != api::no_ticket || (quota_ && quota_->has_outcome());
  }
  bool has_undecided() const noexcept override { return undecided_ > 0; }
  int64_t deadline_ms() const noexcept override;
  void on_deadline() noexcept override;

  void on_head(const wire::HttpRequest& request, std::string_view text) noexcept;
  void decide(const wire::HttpRequest& request, wire::RestDecision& decision) noexcept;
  bool make_room() noexcept;
  void begin_quota(const wire::HttpRequest& request, const wire::RestQuota& asked) noexcept;
  void on_quota_body() noexcept;
  void ask_quota() noexcept;
  void wait_for_quota(api::Ticket ticket) noexcept;
  void on_quota_granted(const api::Grant& grant) noexcept;
  void drop_outcome() noexcept;
  void answer_quota_batch(const api::QuotaBatch& batch) noexcept;
  void answer_quota(const wire::QuotaReply& reply) noexcept;
  void answer_reserved(const wire::QuotaReply& reply, uint64_t reservation) noexcept;
  void refuse_look(const wire::ReplyHead& head) noexcept;
  void start_debug(const wire::HttpRequest& request, const wire::RestDebug& asked) noexcept;
  void begin_debug_stream() noexcept;
  void continue_debug() noexcept;
  bool answer_small_debug() noexcept;
  void finish_debug() noexcept;
  void end_debug() noexcept;
  bool write_debug_rows() noexcept;
  void refuse_with(uint16_t status, std::string_view cause) noexcept;
  void refuse_with(const wire::RestReply& reply) noexcept;
  void settle_answers() noexcept;
  void answer_with(const wire::RestReply& reply, const wire::ReplyHead& head) noexcept;
  void answer_content(const wire::RestContent& content, const wire::ReplyHead& head) noexcept;
  template <typename Encode>
  void answer(size_t bytes_max, bool keep_alive, Encode encode) noexcept;
  void answered(bool keep_alive) noexcept;
  size_t decision_bytes_max(uint8_t kind, size_t key_bytes) const noexcept;
  void write_decision(api::Verdict verdict, const api::Detail& detail, std::string_view key,
                      uint8_t kind, bool released) noexcept;
  wire::ReplyHead reply_head(uint8_t kind) const noexcept;
  uint8_t kind_of(const wire::HttpRequest& request) const noexcept;

  wire::HttpParser parser_;
  std::span<char> key_memory_;
  RequestLog log_;
  std::unique_ptr<DebugWalk> debug_;
  std::unique_ptr<HttpQuota> quota_;
  ToldList told_;
  api::Ticket ticket_ = api::no_ticket;  // of the waiting request
  uint32_t waiting_key_bytes_ = 0;
  uint8_t waiting_kind_ = 0;
  uint32_t undecided_ = 0;   // requests of the turn
  bool in_request_ = false;  // some of a head or body has come, but not all
  int64_t drain_started_ms_ = 0;
  int64_t phase_started_ms_;  // since when idle, or within the present request
};

}  // namespace sluice::session
