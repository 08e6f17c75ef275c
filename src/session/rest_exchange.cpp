#include "session/rest_exchange.hpp"

#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "base/overloaded.hpp"
#include "session/answer_body.hpp"
#include "session/rest_decision.hpp"
#include "wire/content_type.hpp"
#include "wire/openapi.hpp"

namespace sluice::session {

RestExchange::RestExchange(Context& context, RestTransport& transport, RequestLog& log,
                           TicketShare& tickets, const WaiterPlace& place,
                           std::span<char> key_memory) noexcept
    : context_(context),
      transport_(transport),
      log_(log),
      tickets_(tickets),
      place_(place),
      key_memory_(key_memory) {}

RestExchange::~RestExchange() {
  ASSERT(ticket_ == api::no_ticket);
}

// --- Begin ---------------------------------------------------------------------------------

size_t RestExchange::gathered_bytes_max(const wire::RestRequest& request,
                                        const Options& options) noexcept {
  return std::visit(base::Overloaded{
                        [](const wire::RestInspect& inspect) {
                          return wire::inspected_key_bytes_max(inspect.key.size());
                        },
                        [&](const wire::RestMetrics&) {
                          return size_t{limits::metrics_bytes_max(options.shards,
                                                                  options.ownership.nodes_count())};
                        },
                        [](const wire::RestTop&) { return size_t{limits::reply_bytes_max}; },
                        [](const wire::RestOfAllNodes&) { return size_t{limits::reply_bytes_max}; },
                        [](const wire::RestDebug&) { return AnswerBody::unread_bytes_max; },
                        [](const auto&) { return size_t{0}; },
                    },
                    request);
}

void RestExchange::begin(const wire::RestRequest& request) noexcept {
  ASSERT(!is_open() && !is_dropped_);
  ASSERT(!std::holds_alternative<wire::RestDecision>(request));
  std::visit(base::Overloaded{
                 [](const wire::RestDecision&) {},  // asserted above
                 [&](const wire::RestReply& reply) {
                   if (reply.is_rate_refusal) log_.refused(reply.body);
                   answer(reply);
                 },
                 [&](const wire::RestHealth&) {
                   answer(wire::RestContent{.status = uint16_t(context_.draining ? 503 : 200),
                                            .headers = context_.node_header});
                 },
                 [&](const wire::RestOpenapi&) {
                   answer(wire::RestContent{.content_type = wire::application_json,
                                            .body = wire::openapi_text()});
                 },
                 [&](const wire::RestMetrics&) {
                   if (begin_query()) transport_.metrics();
                 },
                 [&](const wire::RestTop& top) {
                   if (begin_query()) transport_.top(top.keys_max);
                 },
                 [&](const wire::RestOfAllNodes& asked) { begin_nodes(asked); },
                 [&](const wire::RestInspect& inspect) {
                   if (begin_query(inspect.pretty)) transport_.inspect(inspect.key);
                 },
                 [&](const wire::RestDebug& debug) { begin_debug(debug); },
                 [&](const wire::RestQuota& asked) {
                   state_ = std::make_unique<QuotaExchange>(context_, log_, asked);
                 },
             },
             request);
}

bool RestExchange::begin_query(bool pretty) noexcept {
  if (!context_.backend.may_query()) {
    refuse_query();
    return false;
  }
  state_ = ShardQuery{pretty};
  return true;
}

void RestExchange::begin_debug(const wire::RestDebug& request) noexcept {
  if (!DebugExchange::has_place(context_)) return refuse_query();
  Debug& debug =
      state_.emplace<Debug>(std::make_unique<DebugExchange>(context_, transport_, request));
  debug->begin();
}

void RestExchange::begin_nodes(const wire::RestOfAllNodes& request) noexcept {
  if (!context_.backend.may_ask_nodes()) return refuse_query();
  state_ = ShardQuery{false};
  transport_.ask_nodes(request.method, request.target);
}

void RestExchange::refuse_query() noexcept {
  answer(wire::RestContent{.status = 503,
                           .content_type = wire::text_plain,
                           .body = "too many shard queries at once: try again later"});
}

void RestExchange::wait(const api::Entry& entry, uint64_t request_id, bool json) noexcept {
  ASSERT(!is_open() && !is_dropped_);
  ticket_ = entry.ticket;
  WaitingEntry& waiting = context_.waits[ticket_];
  join(context_, tickets_, waiting);
  waiting.detail.request_id = request_id;
  Queued& queued = state_.emplace<Queued>(Queued{.key_bytes = 0, .json = json});
  if (!json) return;
  ASSERT(entry.key_bytes <= key_memory_.size());
  std::memcpy(key_memory_.data(), entry.key_data, entry.key_bytes);
  queued.key_bytes = entry.key_bytes;
}

// --- End -----------------------------------------------------------------------------------

// Idle before the answer is written: writing it may end the connection, which drops open exchanges.
void RestExchange::answer(const wire::RestAnswer& answer, const AnswerOptions& options) noexcept {
  state_ = Idle{};
  transport_.answer(answer, options);
}

void RestExchange::answer_quota(const QuotaExchange::Answer& given) noexcept {
  const wire::QuotaReply& reply = given.reply;
  answer(wire::RestContent{.status = reply.status,
                           .content_type = reply.content_type,
                           .headers = reply.headers,
                           .body = reply.body},
         {.reservation = given.reservation, .closes = reply.closes});
}

void RestExchange::drop() noexcept {
  is_dropped_ = true;
  if (!is_waiting()) return;
  WaitingEntry& entry = context_.waits[std::exchange(ticket_, api::no_ticket)];
  tickets_.dropped(entry.waits_for);
  context_.backend.abandon(entry);
  log_.abandoned();
}

bool RestExchange::awaits_reply() const noexcept {
  if (const Debug* debug = std::get_if<Debug>(&state_)) return (*debug)->awaits_reply();
  return std::holds_alternative<ShardQuery>(state_) || is_at(QuotaExchange::Stage::asked);
}

// --- Events --------------------------------------------------------------------------------

std::string* RestExchange::body() noexcept {
  return takes_body() && quota()->reads_body() ? &quota()->body() : nullptr;
}

void RestExchange::on_body() noexcept {
  ASSERT(takes_body());
  if (const auto answer = quota()->read()) answer_quota(*answer);
}

void RestExchange::ask() noexcept {
  api::QuotaBatch& batch = context_.backend.take_batch();
  quota()->fill(batch);
  api::QuotaCall& call = batch.calls[0];
  if ((call.flags & api::quota_flag::may_wait) != 0) {
    const uint64_t waiting = waiting_count(context_, WaitsFor::quota);
    call.flags |= take_ticket(context_, tickets_, place_, WaitsFor::quota, waiting, call.ticket);
    if (call.ticket != api::no_ticket) lend_wait_answer(batch);
  }
  transport_.ask(batch);
}

// The lent answer lives as long as the ticket.
void RestExchange::lend_wait_answer(api::QuotaBatch& batch) noexcept {
  auto& answer = context_.waits[batch.calls[0].ticket].answer;
  answer = std::make_unique<api::WaitAnswer>();
  answer->limits.reserve(batch.subjects.size() * limits::quota_limits_max);
  batch.wait_answers.assign(1, answer.get());
}

void RestExchange::on_quota(const api::QuotaBatch& batch) noexcept {
  ASSERT(quota() != nullptr);
  const api::Ticket ticket = batch.calls[0].ticket;
  const bool is_queued = batch.answers[0].code == api::QuotaCode::queued;
  if (is_queued && !is_dropped_) {
    ticket_ = ticket;
    join(context_, tickets_, context_.waits[ticket_]);
    return quota()->wait();
  }
  free_or_abandon(context_, tickets_, WaitsFor::quota, ticket, is_queued);
  if (!is_dropped_) {
    const auto answer = quota()->on_replies(batch);
    if (answer) answer_quota(*answer);
    return;
  }
  cancel_undelivered(context_.backend, batch);
  if (is_queued) {
    log_.abandoned();
  } else {
    log_.answered(client_left, 0);
  }
  state_ = Idle{};
}

void RestExchange::on_granted(const WaitingEntry& entry, const api::Grant& grant) noexcept {
  ASSERT(entry.ticket == ticket_);
  if (QuotaExchange* waited = quota()) {
    waited->on_outcome(grant);
    if (waited->stage() == QuotaExchange::Stage::due) answer_waited();
    return;
  }
  api::Detail detail = grant.detail;
  detail.request_id = entry.detail.request_id;
  end_wait();
  const Queued queued = std::get<Queued>(state_);
  answer(wire::DecisionAnswer{.verdict = grant.verdict,
                              .detail = detail,
                              .key = {key_memory_.data(), queued.key_bytes},
                              .json = queued.json});
}

// Until this, the waiter's ticket holds what was granted.
void RestExchange::answer_waited() noexcept {
  const api::WaitAnswer& waited = *context_.waits[ticket_].answer;
  const QuotaExchange::Answer answer = quota()->waited_answer(waited);
  end_wait();
  answer_quota(answer);
}

void RestExchange::end_wait() noexcept {
  tickets_.dropped(context_.waits[ticket_].waits_for);
  context_.waits.free(std::exchange(ticket_, api::no_ticket));
}

void RestExchange::on_text(std::string_view content_type, std::string_view text) noexcept {
  answer(wire::RestContent{.content_type = content_type, .body = text});
}

void RestExchange::on_inspected(const api::KeyState* state) noexcept {
  if (state == nullptr) {
    log_.inspected_unknown();
    return answer(wire::key_not_found);
  }
  answer(wire::KeyAnswer{*state, std::get<ShardQuery>(state_).pretty});
}

void RestExchange::on_counted(uint64_t keys_count) noexcept {
  std::get<Debug>(state_)->on_counted(keys_count);
}

void RestExchange::on_page(std::span<const api::KeyState> keys, uint64_t next_cursor) noexcept {
  std::get<Debug>(state_)->on_page(keys, next_cursor);
}

bool RestExchange::end_turn() noexcept {
  if (is_at(QuotaExchange::Stage::due)) {
    answer_waited();
    return false;
  }
  if (is_at(QuotaExchange::Stage::granted)) {
    quota()->end_turn();
    return true;
  }
  Debug* debug = std::get_if<Debug>(&state_);
  if (debug == nullptr) return false;
  const DebugExchange::Progress progress = (*debug)->proceed();
  if (progress == DebugExchange::Progress::complete) {
    const Debug complete = std::move(*debug);
    state_ = Idle{};
    complete->finish();
  }
  return progress == DebugExchange::Progress::goes_on;
}

}  // namespace sluice::session
