// A request under /v1/ from its head to its answer: it has a body, and may wait in a queue.
// Flow:   body -> read() -> fill() -> on_replies() -> the answer; or wait() -> on_outcome() ->
//         waited_answer().
// Errors: for a wrong request read() returns an answer.
// Lives:  on the heap: REST requests about quotas may allocate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "session/context.hpp"
#include "session/quota_head.hpp"
#include "session/request_log.hpp"
#include "wire/rest_quota.hpp"

namespace sluice::session {

class QuotaExchange {
 public:
  struct Answer {
    wire::QuotaReply reply;
    uint64_t reservation = 0;  // that the answer names; 0: none
  };

  enum class Stage : uint8_t {
    body,     // has arrived in part only
    ready,    // its call can be sent to the shards
    asked,    // waits for the shards' reply
    waiting,  // in the queue of its subjects
    granted,  // in this loop iteration, after it had waited
    due,      // to be answered now, in the iteration after that
  };

  QuotaExchange(Context& context, RequestLog& log, const wire::RestQuota& asked);

  Stage stage() const noexcept { return stage_; }
  bool reads_body() const noexcept { return wire::reads_quota_body(head_.view()); }
  std::string& body() noexcept { return body_; }

  // The body is whole. Returns the answer if the shards need not be asked.
  std::optional<Answer> read();

  // Of the page that it asks for; 0: it asks for none.
  size_t page_bytes_max() const noexcept;

  // Adds the request's call to an empty batch.
  void fill(api::QuotaBatch& batch);
  std::optional<Answer> on_replies(const api::QuotaBatch& batch);

  // wait(): its call was queued; on_outcome(): its outcome has come. A denial is due at once.
  void wait() noexcept;
  void on_outcome(const api::Grant& grant) noexcept;
  Answer waited_answer(const api::WaitAnswer& waited) const;
  void end_turn() noexcept;

 private:
  Context& context_;
  RequestLog& log_;
  QuotaHead head_;
  std::string body_;
  wire::QuotaRequest request_;
  Stage stage_ = Stage::body;
};

}  // namespace sluice::session
