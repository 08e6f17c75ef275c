// A request under /v1/ from its head to its answer: it has a body, and may ask the shards twice.
// Flow:   body -> read() -> fill() -> on_replies() -> the answer; or wait() -> on_outcome(), and
//         another fill() for the limits as they stand when the outcome has come.
// Errors: what the request gets wrong is an answer of read().
// Lives:  on the heap: REST's quotas may allocate.
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
    uint64_t reservation = 0;  // that the client learns of; 0: none
  };

  enum class Stage : uint8_t {
    body,      // not all of it has come
    ready,     // its question can be asked
    asked,     // the shards owe a reply
    waiting,   // in the queue of its subjects
    resolved,  // its outcome has come in this loop iteration; ready in the next
  };

  QuotaExchange(Context& context, RequestLog& log, const wire::RestQuota& asked);

  Stage stage() const noexcept { return stage_; }
  bool reads_body() const noexcept { return wire::reads_quota_body(head_.view()); }
  std::string& body() noexcept { return body_; }

  // The body is whole. The answer where the shards need not be asked.
  std::optional<Answer> read();

  // What to ask the shards, as the calls of an empty batch.
  void fill(api::QuotaBatch& batch);
  std::optional<Answer> on_replies(const api::QuotaBatch& batch);

  // Its call was queued.
  void wait() noexcept;
  std::optional<Answer> on_outcome(const api::Grant& grant);
  void end_turn() noexcept;

  // It waited, and its client has not received the outcome yet.
  bool has_outcome() const noexcept { return outcome_ != api::Verdict::none; }
  // The client has left between the outcome and its answer.
  void drop_outcome() noexcept;

  // Whether the shards decide the request itself, or show what became of it.
  bool asks_itself() const noexcept { return question_ == Question::itself; }

 private:
  enum class Question : uint8_t {
    itself,
    show,   // of the reservation that it was granted
    check,  // why it was not
  };

  Answer answer_outcome(const api::QuotaBatch& batch) const;

  Context& context_;
  RequestLog& log_;
  QuotaHead head_;
  std::string body_;
  wire::QuotaRequest request_;
  Stage stage_ = Stage::body;
  Question question_ = Question::itself;
  api::Verdict outcome_ = api::Verdict::none;  // of one that waited
  uint64_t reservation_ = 0;                   // likewise, when granted
};

}  // namespace sluice::session
