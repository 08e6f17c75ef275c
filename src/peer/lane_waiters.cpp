#include "peer/lane_waiters.hpp"

namespace sluice::peer {
namespace {

using api::QuotaCode;
using api::Verdict;
using Of = RemoteWaiter::Of;

// Of a waiter whose place in the queue is lost.
api::Grant lost_grant(const RemoteWaiter& waiter) noexcept {
  if (waiter.of == Of::entry) {
    return {.ticket = waiter.ticket, .verdict = Verdict::owner_unreachable};
  }
  const api::QuotaAnswer answer{.code = QuotaCode::owner_unreachable,
                                .retry_after_ms = FailurePolicy::retry_after_ms};
  if (waiter.answer != nullptr) *waiter.answer = {.answer = answer, .limits = {}};
  return {.ticket = waiter.ticket,
          .verdict = Verdict::denied,
          .code = answer.code,
          .detail = {.retry_after_ms = answer.retry_after_ms}};
}

// Of a quota call whose wait has ended.
api::Grant grant_of(const RemoteWaiter& waiter, const api::QuotaAnswer& answer,
                    std::span<const api::LimitReport> limits) {
  if (waiter.answer != nullptr) {
    const auto own = limits.subspan(answer.first_limit, answer.limits_count);
    waiter.answer->answer = answer;
    waiter.answer->answer.first_limit = 0;
    waiter.answer->limits.assign(own.begin(), own.end());
  }
  return {.ticket = waiter.ticket,
          .verdict = api::admits(answer.code) ? Verdict::approved : Verdict::denied,
          .code = answer.code,
          .detail = {.retry_after_ms = answer.retry_after_ms},
          .refund_claim = {.reservation = answer.reservation}};
}

// To a client of this node, `draining` would mean this node.
bool is_outcome_of(const RemoteWaiter& waiter, Verdict verdict) noexcept {
  return verdict != Verdict::handles_full && verdict != Verdict::draining &&
         (verdict != Verdict::withdrawn || waiter.is_withdrawn);
}
bool is_outcome_of(const RemoteWaiter& waiter, QuotaCode code) noexcept {
  return code != QuotaCode::draining && code != QuotaCode::queued &&
         (code != QuotaCode::withdrawn || waiter.is_withdrawn);
}

}  // namespace

LaneWaiters::~LaneWaiters() {
  waiters_.clear_and_dispose(
      [this](RemoteWaiter* waiter) { context_.waiters.free(waiter->index); });
}

RemoteWaiter* LaneWaiters::keep(const RemotePlace& place, api::Ticket ticket, Of of) noexcept {
  if (ticket == api::no_ticket) return nullptr;
  const api::WaiterId index = context_.waiters.take(place, ticket, of);
  if (index == decltype(context_.waiters)::none) return nullptr;
  RemoteWaiter& waiter = context_.waiters[index];
  waiter.index = index;
  waiters_.insert(waiter);
  return &waiter;
}

const RemotePlace* LaneWaiters::withdraw(api::WaiterId waiter, api::Ticket ticket) noexcept {
  if (!context_.waiters.holds(waiter) || context_.waiters[waiter].ticket != ticket) return nullptr;
  context_.waiters[waiter].is_withdrawn = true;
  return &context_.waiters[waiter].place;
}

bool LaneWaiters::end_entry(const RemotePlace& place, Verdict verdict, const api::Detail& detail,
                            const api::RefundClaim& claim) noexcept {
  RemoteWaiter* const waiter = find(place, Of::entry);
  if (waiter == nullptr) return false;
  const bool is_outcome = is_outcome_of(*waiter, verdict);
  api::Grant grant{.ticket = waiter->ticket,
                   .verdict = is_outcome ? verdict : Verdict::owner_unreachable,
                   .detail = detail};
  if (verdict == Verdict::approved) grant.refund_claim = claim;
  end(*waiter, grant);
  return true;
}

bool LaneWaiters::end_call(const RemotePlace& place, const api::QuotaAnswer& answer,
                           std::span<const api::LimitReport> limits) {
  RemoteWaiter* const waiter = find(place, Of::quota_call);
  if (waiter == nullptr) return false;
  const bool is_outcome = is_outcome_of(*waiter, answer.code);
  end(*waiter, is_outcome ? grant_of(*waiter, answer, limits) : lost_grant(*waiter));
  return true;
}

void LaneWaiters::lose() noexcept {
  waiters_.clear_and_dispose([this](RemoteWaiter* waiter) {
    context_.grants.push_back(lost_grant(*waiter));
    context_.waiters.free(waiter->index);
  });
}

RemoteWaiter* LaneWaiters::find(const RemotePlace& place, Of of) noexcept {
  const auto at = waiters_.find(place);
  return at != waiters_.end() && at->of == of ? &*at : nullptr;
}

void LaneWaiters::end(RemoteWaiter& waiter, const api::Grant& grant) noexcept {
  context_.grants.push_back(grant);
  waiters_.erase(waiters_.iterator_to(waiter));
  context_.waiters.free(waiter.index);
}

}  // namespace sluice::peer
