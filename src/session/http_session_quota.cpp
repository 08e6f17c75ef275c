// REST's requests for quotas: each is a batch of its own, and nothing behind it is looked at before
// it is answered.
#include "base/assert.hpp"
#include "session/http_session.hpp"

namespace sluice::session {
namespace {

using api::QuotaCode;
using api::QuotaOp;
using Question = HttpQuota::Question;
using Stage = HttpQuota::Stage;

// A longer page is asked for again, with fewer rows.
constexpr size_t page_bytes_max = limits::reply_bytes_max / 2;

// Why a request that waited was not admitted, and what a check says of it now.
QuotaCode code_of(api::Verdict verdict, QuotaCode checked) noexcept {
  if (verdict == api::Verdict::wait_limit) return QuotaCode::wait_limit;
  ASSERT(verdict == api::Verdict::never_fits);
  const bool says_why = !api::admits(checked) && !api::may_retry(checked);
  return says_why ? checked : QuotaCode::exceeds_limit;
}

}  // namespace

void HttpSession::begin_quota(const wire::HttpRequest& request,
                              const wire::RestQuota& asked) noexcept {
  ASSERT(!quota_);
  quota_ = std::make_unique<HttpQuota>(asked, kind_of(request));
  if (wire::reads_quota_body(asked)) parser_.keep_body(quota_->body);
}

void HttpSession::on_quota_body() noexcept {
  const wire::QuotaOptions options{.name_bytes_max = context_.options.key_bytes_max,
                                   .wait_ms_max = context_.options.wait_ms_max};
  auto read = wire::read_quota_request(quota_->head(), quota_->body, options);
  if (const auto* problem = std::get_if<wire::QuotaProblem>(&read)) {
    log_.refused(problem->detail.empty() ? problem->title : std::string_view{problem->detail});
    return answer_quota(wire::problem_reply(*problem));
  }
  quota_->request = std::get<wire::QuotaRequest>(std::move(read));
  if (context_.draining && quota_->request.call.op == QuotaOp::reserve) {
    ++context_.drained_entries;
    return answer_quota(wire::denied_reply(quota_->request, QuotaCode::draining));
  }
  quota_->stage = Stage::to_ask;
}

// When there is no batch for it the session is blocked, and comes here again.
void HttpSession::ask_quota() noexcept {
  if (!make_look_room()) return;
  api::QuotaBatch& batch = context_.backend.take_batch();
  quota_->fill(batch);
  api::QuotaCall& call = batch.calls[0];
  if ((call.flags & api::quota_flag::may_wait) != 0) {
    call.ticket = context_.waits.take(connection_.socket().index, 0);
    if (call.ticket == api::no_ticket) call.flags |= api::quota_flag::waiters_full;
  }
  quota_->stage = Stage::asked;
  hold(held_by_look);
  context_.backend.ask(*this, 0, batch);
}

void HttpSession::on_quota(uint64_t, const api::QuotaBatch& batch) noexcept {
  ASSERT(quota_ && quota_->stage == Stage::asked);
  const api::Ticket ticket = batch.calls[0].ticket;
  const bool queued = batch.answers[0].code == QuotaCode::queued;
  const bool gone = connection_.closing() || connection_.finishing();
  if (queued && !gone) return wait_for_quota(ticket);
  if (queued) {
    context_.backend.abandon(context_.waits[ticket]);
  } else if (ticket != api::no_ticket) {
    context_.waits.give_back(ticket);
  }
  release_hold(held_by_look);
  if (!gone) return answer_quota_batch(batch);
  give_back_untold(context_.backend, batch);
  if (queued) {
    log_.vanished();
  } else if (quota_->question == Question::itself) {
    log_.answered(client_left, 0);
  }  // Else drop_outcome() came first.
  quota_.reset();
}

void HttpSession::wait_for_quota(api::Ticket ticket) noexcept {
  quota_->stage = Stage::waiting;
  ticket_ = ticket;
  context_.waits[ticket_].follow(WaitEvent::joined);
  mark_dirty();  // its peer may have left since it asked
  hold(held_by_decision);
  release_hold(held_by_look);
}

// Its limits are those of its core: they are asked for before the answer can tell them. Not before
// the next turn has heard of whoever has left during this one, which may have been long.
void HttpSession::on_quota_granted(const api::Grant& grant) noexcept {
  ASSERT(quota_ && quota_->stage == Stage::waiting);
  if (grant.verdict == api::Verdict::draining) {
    return answer_quota(wire::denied_reply(quota_->request, QuotaCode::draining));
  }
  const bool approved = grant.verdict == api::Verdict::approved;
  quota_->outcome = grant.verdict;
  quota_->reservation = grant.permit.reservation;
  quota_->question = approved ? Question::show : Question::check;
  quota_->stage = Stage::to_ask;
  mark_dirty();  // its end lets it go on
}

// The connection ends between the outcome and its answer.
void HttpSession::drop_outcome() noexcept {
  if (quota_->reservation != 0) context_.backend.give_back(quota_->reservation);
  quota_->reservation = 0;
  quota_->outcome = api::Verdict::none;
}

void HttpSession::answer_quota_batch(const api::QuotaBatch& batch) noexcept {
  wire::QuotaRequest& request = quota_->request;
  const int64_t wall_ns = context_.now.wall_ns;
  if (quota_->question == Question::show) {
    const uint64_t reservation = quota_->reservation;
    return answer_reserved(wire::granted_reply(request, reservation, batch, wall_ns), reservation);
  }
  if (quota_->question == Question::check) {
    const QuotaCode code = code_of(quota_->outcome, batch.answers[0].code);
    return answer_quota(wire::not_granted_reply(request, code, batch, wall_ns));
  }
  const wire::QuotaReply reply = wire::quota_reply(request, batch, wall_ns);
  const uint32_t rows = batch.answers[0].rows_count;
  if (api::is_paged(request.call.op) && reply.body.size() > page_bytes_max && rows > 1) {
    request.call.limit = rows / 2;
    quota_->stage = Stage::to_ask;
    return;
  }
  if (request.call.op == QuotaOp::reserve) {
    return answer_reserved(reply, batch.answers[0].reservation);
  }
  answer_quota(reply);
}

void HttpSession::answer_reserved(const wire::QuotaReply& reply, uint64_t reservation) noexcept {
  answer_quota(reply);
  if (reservation == 0) return;
  const net::OutputBuffer& output = connection_.output();
  const uint64_t sends = output.sends_count();
  told_.forget_before(output.in_flight() ? sends : sends + 1);
  told_.add({.reservation = reservation, .send = sends + 1, .end_bytes = output.waiting()});
}

void HttpSession::on_lost(const LostSend& lost) noexcept {
  for (const ToldReservation& told : told_.behind(lost.send, lost.taken_bytes)) {
    context_.backend.give_back(told.reservation);
  }
}

void HttpSession::answer_quota(const wire::QuotaReply& reply) noexcept {
  wire::ReplyHead head = reply_head(quota_->kind);
  if (reply.closes) head.keep_alive = false;  // another core may be the first to know
  quota_.reset();
  answer_content({.status = reply.status,
                  .content_type = reply.content_type,
                  .headers = reply.headers,
                  .body = reply.body},
                 head);
}

}  // namespace sluice::session
