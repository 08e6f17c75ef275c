// The life of one REST request between its routing and its answer, without the connection: asks
// the shards, waits in a queue, reads a body, and hands its answer to a RestTransport.
// Flow:   wire::RestRequest -> begin() -> [body, ask(), on_...(), end_turn()] -> answer; or a /rate
//         request that was queued: wait() -> on_granted() -> answer.
// Shape:  one state at a time: idle, a question about shards, a queued decision, GET /debug, or a
//         request for quotas; the last two are classes of their own. A decision that needs no
//         waiting never becomes an exchange (rest_decision.hpp).
// Errors: a wrong request, and one for which there is no room, get an answer.
// Lives:  takes one request after the other. After drop() it takes none, only the outstanding
//         replies of the shards.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "session/context.hpp"
#include "session/debug_exchange.hpp"
#include "session/quota_exchange.hpp"
#include "session/request_log.hpp"
#include "session/rest_transport.hpp"
#include "session/ticket.hpp"

namespace sluice::session {

class RestExchange {
 public:
  // Grants go to `place`. The oldest head of `log` is this request's; `key_memory` has room for the
  // key of a queued request, if the answer will show it.
  RestExchange(Context& context, RestTransport& transport, RequestLog& log, TicketShare& tickets,
               const WaiterPlace& place, std::span<char> key_memory) noexcept;
  ~RestExchange();
  RestExchange(const RestExchange&) = delete;
  RestExchange& operator=(const RestExchange&) = delete;

  // Of the answer that shards gather for a request as soon as it begins; 0: they gather none.
  static size_t gathered_bytes_max(const wire::RestRequest& request,
                                   const Options& options) noexcept;
  // Any request but a decision. It may have been answered when this returns.
  void begin(const wire::RestRequest& request) noexcept;
  // A decision with a queued entry.
  void wait(const api::Entry& entry, uint64_t request_id, bool json) noexcept;

  // The body of the request: body() is where to keep it, or null; on_body() is called at its end.
  bool takes_body() const noexcept { return is_at(QuotaExchange::Stage::body); }
  std::string* body() noexcept;
  void on_body() noexcept;

  // is_ready(): the request's quota call can be sent. ask() sends it; Backend::may_query() holds.
  bool is_ready() const noexcept { return is_at(QuotaExchange::Stage::ready); }
  void ask() noexcept;
  // Of the page that ask() asks for; 0: it asks for none.
  size_t page_bytes_max() const noexcept { return quota()->page_bytes_max(); }

  void on_granted(const WaitingEntry& entry, const api::Grant& grant) noexcept;
  void on_inspected(const api::KeyState* state) noexcept;
  void on_page(std::span<const api::KeyState> keys, uint64_t next_cursor) noexcept;
  void on_counted(uint64_t keys_count) noexcept;
  void on_text(std::string_view content_type, std::string_view text) noexcept;
  void on_quota(const api::QuotaBatch& batch) noexcept;

  // Called when all events of the loop iteration are handled. True: the exchange has more to do, so
  // call it in the next iteration, too, even if nothing arrives.
  bool end_turn() noexcept;

  // The client has left: takes its waiter out of the queue, or has the owner refund its grant.
  void drop() noexcept;

  // Not answered yet, and waits for something other than its body or ask().
  bool is_pending() const noexcept { return is_open() && !takes_body() && !is_ready(); }
  bool is_open() const noexcept { return !std::holds_alternative<Idle>(state_); }
  // end_turn() has something to do.
  bool is_unfinished() const noexcept {
    return is_at(QuotaExchange::Stage::due) || is_at(QuotaExchange::Stage::granted) || walks();
  }
  // It is a GET /debug that walks through the keys: only a few do at a time (DebugExchange).
  bool walks() const noexcept { return std::holds_alternative<Debug>(state_); }
  // A shard's reply is outstanding, and will come also after drop().
  bool awaits_reply() const noexcept;
  // In a queue, or granted and not answered yet: then the exchange ends when the client leaves.
  bool is_waiting() const noexcept { return ticket_ != api::no_ticket; }

 private:
  struct Idle {};
  struct ShardQuery {
    bool pretty;
  };
  struct Queued {
    uint32_t key_bytes;  // in key_memory_
    bool json;
  };
  using Debug = std::unique_ptr<DebugExchange>;
  using Quota = std::unique_ptr<QuotaExchange>;

  void answer(const wire::RestAnswer& answer, const AnswerOptions& options = {}) noexcept;
  void answer_quota(const QuotaExchange::Answer& answer) noexcept;
  void answer_waited() noexcept;
  void end_wait() noexcept;
  void lend_wait_answer(api::QuotaBatch& batch) noexcept;
  void refuse_query() noexcept;
  bool begin_query(bool pretty = false) noexcept;
  void begin_debug(const wire::RestDebug& request) noexcept;
  void begin_nodes(const wire::RestOfAllNodes& request) noexcept;
  // Null: the request is not about quotas. Inline, as all that is called once per request.
  QuotaExchange* quota() const noexcept {
    const Quota* quota = std::get_if<Quota>(&state_);
    return quota == nullptr ? nullptr : quota->get();
  }
  bool is_at(QuotaExchange::Stage stage) const noexcept {
    return quota() != nullptr && quota()->stage() == stage;
  }

  Context& context_;
  RestTransport& transport_;
  RequestLog& log_;
  TicketShare& tickets_;
  WaiterPlace place_;
  std::span<char> key_memory_;
  std::variant<Idle, ShardQuery, Queued, Debug, Quota> state_;
  api::Ticket ticket_ = api::no_ticket;  // while it waits
  bool is_dropped_ = false;
};

}  // namespace sluice::session
