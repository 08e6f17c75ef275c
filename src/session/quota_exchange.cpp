#include "session/quota_exchange.hpp"

#include <utility>
#include <variant>

#include "base/assert.hpp"
#include "base/limits.hpp"

namespace sluice::session {
namespace {

using api::QuotaCode;
using api::QuotaOp;

// A longer page is asked for again, with fewer rows.
constexpr size_t page_bytes_max = limits::reply_bytes_max / 2;

// Why a request that waited was not admitted; `checked` is what a check finds now.
QuotaCode code_of(api::Verdict verdict, QuotaCode checked) noexcept {
  if (verdict == api::Verdict::wait_limit) return QuotaCode::wait_limit;
  ASSERT(verdict == api::Verdict::never_fits);
  const bool is_final_denial = !api::admits(checked) && !api::may_retry(checked);
  return is_final_denial ? checked : QuotaCode::exceeds_limit;
}

}  // namespace

QuotaExchange::QuotaExchange(Context& context, RequestLog& log, const wire::RestQuota& asked)
    : context_(context), log_(log), head_(asked) {}

std::optional<QuotaExchange::Answer> QuotaExchange::read() {
  ASSERT(stage_ == Stage::body);
  const wire::QuotaOptions options{.name_bytes_max = context_.options.key_bytes_max,
                                   .wait_ms_max = context_.options.wait_ms_max};
  auto read = wire::read_quota_request(head_.view(), body_, options);
  if (const auto* problem = std::get_if<wire::QuotaProblem>(&read)) {
    log_.refused(problem->detail.empty() ? problem->title : std::string_view{problem->detail});
    return Answer{wire::problem_reply(*problem)};
  }
  request_ = std::get<wire::QuotaRequest>(std::move(read));
  if (context_.draining && request_.call.op == QuotaOp::reserve) {
    ++context_.drained_entries;
    return Answer{wire::denied_reply(request_, QuotaCode::draining)};
  }
  stage_ = Stage::ready;
  return std::nullopt;
}

void QuotaExchange::fill(api::QuotaBatch& batch) {
  ASSERT(stage_ == Stage::ready);
  stage_ = Stage::asked;
  switch (question_) {
    case Question::itself:
      return wire::fill_batch(request_, batch);
    case Question::show:
      return wire::fill_show(reservation_, batch);
    case Question::check:
      return wire::fill_check(request_, batch);
  }
}

std::optional<QuotaExchange::Answer> QuotaExchange::on_replies(const api::QuotaBatch& batch) {
  ASSERT(stage_ == Stage::asked);
  if (question_ != Question::itself) return answer_outcome(batch);
  const api::QuotaAnswer& reply = batch.answers[0];
  Answer answer{wire::quota_reply(request_, batch, context_.now.wall_ns)};
  const bool is_long = api::is_paged(request_.call.op) && answer.reply.body.size() > page_bytes_max;
  if (is_long && reply.rows_count > 1) {
    request_.call.limit = reply.rows_count / 2;
    stage_ = Stage::ready;
    return std::nullopt;
  }
  if (request_.call.op == QuotaOp::reserve) answer.reservation = reply.reservation;
  return answer;
}

QuotaExchange::Answer QuotaExchange::answer_outcome(const api::QuotaBatch& batch) const {
  const int64_t wall_ns = context_.now.wall_ns;
  if (question_ == Question::show) {
    return {wire::granted_reply(request_, reservation_, batch, wall_ns), reservation_};
  }
  const QuotaCode code = code_of(outcome_, batch.answers[0].code);
  return {wire::not_granted_reply(request_, code, batch, wall_ns)};
}

void QuotaExchange::wait() noexcept {
  ASSERT(stage_ == Stage::asked);
  stage_ = Stage::waiting;
}

// Its limits are those of its shard: they are asked for before the answer can show them. Not in
// this loop iteration, which may have been long: first the next one has to notice a client that
// left.
std::optional<QuotaExchange::Answer> QuotaExchange::on_outcome(const api::Grant& grant) {
  ASSERT(stage_ == Stage::waiting);
  if (grant.verdict == api::Verdict::draining) {
    return Answer{wire::denied_reply(request_, QuotaCode::draining)};
  }
  outcome_ = grant.verdict;
  reservation_ = grant.permit.reservation;
  question_ = grant.verdict == api::Verdict::approved ? Question::show : Question::check;
  stage_ = Stage::resolved;
  return std::nullopt;
}

void QuotaExchange::end_turn() noexcept {
  if (stage_ == Stage::resolved) stage_ = Stage::ready;
}

void QuotaExchange::drop_outcome() noexcept {
  if (reservation_ != 0) context_.backend.cancel_undelivered(reservation_);
  reservation_ = 0;
  outcome_ = api::Verdict::none;
}

}  // namespace sluice::session
