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
constexpr size_t long_page_bytes = limits::reply_bytes_max / 2;

}  // namespace

QuotaExchange::QuotaExchange(Context& context, RequestLog& log, const wire::RestQuota& asked)
    : context_(context), log_(log), head_(asked) {}

std::optional<QuotaExchange::Answer> QuotaExchange::read() {
  ASSERT(stage_ == Stage::body);
  const wire::QuotaOptions options{.name_bytes_max = context_.options.key_bytes_max,
                                   .wait_ms_max = context_.options.wait_ms_max};
  const std::string body = std::exchange(body_, {});  // the request may wait for an hour
  auto read = wire::read_quota_request(head_.view(), body, options);
  if (const auto* problem = std::get_if<wire::QuotaProblem>(&read)) {
    log_.refused(problem->detail.empty() ? problem->title : std::string_view{problem->detail});
    return Answer{wire::problem_reply(*problem)};
  }
  request_ = std::get<wire::QuotaRequest>(std::move(read));
  if (context_.draining && api::asks_admission(request_.call.op)) {
    ++context_.drained_entries;
    return Answer{wire::denied_reply(request_, QuotaCode::draining)};
  }
  stage_ = Stage::ready;
  return std::nullopt;
}

size_t QuotaExchange::page_bytes_max() const noexcept {
  return api::is_paged(request_.call.op) ? long_page_bytes : 0;
}

void QuotaExchange::fill(api::QuotaBatch& batch) {
  ASSERT(stage_ == Stage::ready);
  stage_ = Stage::asked;
  wire::fill_batch(request_, batch);
}

std::optional<QuotaExchange::Answer> QuotaExchange::on_replies(const api::QuotaBatch& batch) {
  ASSERT(stage_ == Stage::asked);
  const api::QuotaAnswer& reply = batch.answers[0];
  Answer answer{
      wire::quota_reply(request_, batch, context_.now.wall_ns, context_.options.node_names)};
  const bool is_long =
      api::is_paged(request_.call.op) && answer.reply.body.size() > long_page_bytes;
  if (is_long && reply.rows_count > 1) {
    request_.call.limit = reply.rows_count / 2;
    stage_ = Stage::ready;
    return std::nullopt;
  }
  if (request_.call.op == QuotaOp::reserve) answer.reservation = reply.reservation;
  return answer;
}

void QuotaExchange::wait() noexcept {
  ASSERT(stage_ == Stage::asked);
  stage_ = Stage::waiting;
}

// A grant is not answered in this loop iteration, which may have been long: first the next one has
// to notice whether the client has left.
void QuotaExchange::on_outcome(const api::Grant& grant) noexcept {
  ASSERT(stage_ == Stage::waiting);
  stage_ = api::admits(grant.code) ? Stage::granted : Stage::due;
}

QuotaExchange::Answer QuotaExchange::waited_answer(const api::WaitAnswer& waited) const {
  ASSERT(stage_ == Stage::due);
  return {wire::waited_reply(request_, waited, context_.now.wall_ns), waited.answer.reservation};
}

void QuotaExchange::end_turn() noexcept {
  if (stage_ == Stage::granted) stage_ = Stage::due;
}

}  // namespace sluice::session
