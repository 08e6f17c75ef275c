#include "server/waiter_delivery.hpp"

#include "base/assert.hpp"
#include "proto/reservation_id.hpp"

namespace sluice::server {

using route::Notice;
using session::WaitEvent;
using session::WaitingEntry;
using session::WaitState;

namespace {

// Of a ticket without a session: no outcome is delivered to it.
constexpr uint32_t no_session = 0xFFFF'FFFF;

}  // namespace

WaiterDelivery::WaiterDelivery(session::Context& context, SessionTable& sessions,
                               route::Mailboxes& mailboxes, api::Decider& keys,
                               api::Decider& quotas, size_t grants_max)
    : context_(context),
      sessions_(sessions),
      mailboxes_(mailboxes),
      shard_(mailboxes.shard()),
      sources_{GrantSource{keys}, GrantSource{quotas}} {
  early_grants_.reserve(grants_max);
}

void WaiterDelivery::withdraw(WaitingEntry& entry) noexcept {
  if (entry.owner == shard_) {
    api::Decider& decider = decider_of(entry.waits_for);
    const bool left = decider.withdraw(entry.waiter, entry.ticket, context_.now, entry.owner);
    if (left) deliver_grants();
    return;
  }
  if (entry.notice.kind != Notice::Kind::none) return;  // withdrawn already
  send_notice(entry, Notice::Kind::withdraw);
}

void WaiterDelivery::leave_other_nodes() noexcept {
  if (context_.waits.tickets_count() == 0) return;
  context_.waits.for_waiting([this](WaitingEntry& entry) {
    if (is_at_other_node(entry)) withdraw(entry);
  });
}

void WaiterDelivery::abandon(WaitingEntry& entry) noexcept {
  context_.waits.follow(entry, WaitEvent::client_gone);
  if (entry.state == WaitState::unclaimed) {
    if (!entry.notice.under_way) refund(entry);  // else when the notice has returned
    return;
  }
  if (entry.owner == shard_) {
    // Else its grant is still in the list, or to come, and will find no client.
    api::Decider& decider = decider_of(entry.waits_for);
    const bool left = decider.abandon(entry.waiter, entry.ticket, context_.now, entry.owner);
    if (left) context_.waits.free(entry.ticket);
    return;
  }
  if (entry.notice.under_way) return;  // withdrawn already: the outcome will find no client
  send_notice(entry, Notice::Kind::abandon);
}

// A waiter's ticket carries the claim to another shard: as if its client had just left.
void WaiterDelivery::refund(const api::RefundClaim& claim, api::ShardId owner) noexcept {
  using session::WaitsFor;
  if (owner == shard_) {
    decider_of(WaitsFor::permits).refund(claim, context_.now);
    return;
  }
  // Claims leave half of the room to those who wait: what is not refunded counts until its window
  // ends.
  if (context_.waits.tickets_count() > context_.options.waiters_max / 2) return;
  const api::Ticket ticket = context_.waits.take(no_session, 0, WaitsFor::permits);
  if (ticket == api::no_ticket) return;
  WaitingEntry& entry = context_.waits[ticket];
  entry.owner = owner;
  entry.notice.refund_claim = claim;
  context_.waits.follow(entry, WaitEvent::client_gone);
  context_.waits.follow(entry, WaitEvent::granted);
  refund(entry);
}

void WaiterDelivery::free_or_abandon(api::Ticket ticket, bool is_queued) noexcept {
  if (is_queued) {
    abandon(context_.waits[ticket]);
  } else if (ticket != api::no_ticket) {
    context_.waits.free(ticket);
  }
}

// Sends a notice to the waiter's owner, or changes the one that was not sent yet.
void WaiterDelivery::send_notice(WaitingEntry& entry, Notice::Kind kind) noexcept {
  entry.notice.kind = kind;
  entry.notice.quota = entry.waits_for == session::WaitsFor::quota;
  entry.notice.waiter = entry.waiter;
  entry.notice.ticket = entry.ticket;
  if (!entry.notice.is_linked()) mailboxes_.post(entry.owner, entry.notice);
}

// At the waiter's owner.
void WaiterDelivery::on_notice(api::ShardId origin, Notice& notice) noexcept {
  using session::WaitsFor;
  api::Decider& decider = decider_of(notice.quota ? WaitsFor::quota : WaitsFor::permits);
  switch (notice.kind) {
    case Notice::Kind::withdraw:
      notice.done = decider.withdraw(notice.waiter, notice.ticket, context_.now, origin);
      return;
    case Notice::Kind::abandon:
      notice.done = decider.abandon(notice.waiter, notice.ticket, context_.now, origin);
      return;
    case Notice::Kind::refund:
      notice.done = decider.refund(notice.refund_claim, context_.now);
      return;
    case Notice::Kind::none:
      break;
  }
  ASSERT(false);
}

// At the ticket's shard: the owner has handled the notice.
void WaiterDelivery::on_notice_returned(const Notice& notice) noexcept {
  WaitingEntry& entry = context_.waits[notice.ticket];
  entry.notice.kind = Notice::Kind::none;
  entry.notice.under_way = false;
  if (entry.state == WaitState::ended) return context_.waits.free_ended(notice.ticket);
  const bool over =
      notice.kind == Notice::Kind::refund || (notice.kind == Notice::Kind::abandon && notice.done);
  if (over) {
    context_.waits.free(notice.ticket);
  } else if (entry.state == WaitState::unclaimed) {
    refund(entry);
  }
  // Else the outcome is still to come, or to be written.
}

void WaiterDelivery::on_grant(const api::Grant& grant) noexcept {
  WaitingEntry& entry = context_.waits[grant.ticket];
  if (entry.state == WaitState::undecided) {
    early_grants_.push_back(grant);  // other parts of its request are not decided yet
    return;
  }
  context_.waits.follow(entry, WaitEvent::granted);
  // An empty refund_claim unless it was approved: only then is there something to refund.
  entry.notice.refund_claim =
      grant.verdict == api::Verdict::approved ? grant.refund_claim : api::RefundClaim{};
  if (entry.state == WaitState::unclaimed) {
    if (!entry.notice.under_way) refund(entry);
    return;
  }
  session::Session* session = sessions_.at(entry.session);
  ASSERT(session != nullptr);
  session->on_granted(entry, outcome_of(entry, grant));
}

// For its session: a wait at another node that has ended because this one stops.
api::Grant WaiterDelivery::outcome_of(WaitingEntry& entry, api::Grant grant) noexcept {
  const bool has_left =
      grant.verdict == api::Verdict::withdrawn ||
      (entry.waits_for == session::WaitsFor::quota && grant.code == api::QuotaCode::withdrawn);
  if (!has_left || !context_.draining || !is_at_other_node(entry)) return grant;
  if (entry.waits_for == session::WaitsFor::permits) {
    ++context_.drained_entries;
    grant.verdict = api::Verdict::draining;
    return grant;
  }
  grant.code = api::QuotaCode::draining;
  grant.detail.retry_after_ms = limits::unknown_retry_after_ms;
  if (entry.answer) {
    entry.answer->answer.code = grant.code;
    entry.answer->answer.retry_after_ms = grant.detail.retry_after_ms;
  }
  return grant;
}

// Refunds the outcome of an unclaimed entry. Its notice is not under way.
void WaiterDelivery::refund(WaitingEntry& entry) noexcept {
  const api::RefundClaim& refund_claim = entry.notice.refund_claim;
  const bool approved = refund_claim.cost > 0 || refund_claim.reservation != 0;
  const bool is_cancelled_by_id =
      entry.waits_for == session::WaitsFor::quota &&
      (is_at_other_node(entry) ||
       proto::reservation_id::has_several_shards(refund_claim.reservation));
  if (is_cancelled_by_id && approved) {
    context_.backend.cancel_undelivered(refund_claim.reservation);
  } else if (approved && entry.owner != shard_) {
    return send_notice(entry, Notice::Kind::refund);
  } else if (approved) {
    decider_of(entry.waits_for).refund(refund_claim, context_.now);
  }
  entry.notice.unlink();
  entry.notice.kind = Notice::Kind::none;
  context_.waits.free(entry.ticket);
}

// A split request was delivered: its entries have joined, or their client has left.
void WaiterDelivery::deliver_early_grants() noexcept {
  if (early_grants_.empty()) return;
  std::erase_if(early_grants_, [this](const api::Grant& grant) {
    if (context_.waits[grant.ticket].state == WaitState::undecided) return false;
    on_grant(grant);
    return true;
  });
}

void WaiterDelivery::deliver_grants() noexcept {
  for (GrantSource& source : sources_) deliver_grants(source);
}

void WaiterDelivery::deliver_grants(GrantSource& source) noexcept {
  // By index, because the list grows when a session ends here and frees more permits.
  size_t kept = source.kept;
  for (size_t index = kept; index < source.decider.grants().size(); ++index) {
    const api::Grant grant = source.decider.grants()[index];
    if (grant.origin == shard_) {
      on_grant(grant);
    } else {
      source.decider.grants()[kept++] = grant;
    }
  }
  source.kept = kept;
  source.decider.keep_grants(kept);
}

void WaiterDelivery::send_grants() noexcept {
  for (GrantSource& source : sources_) send_grants(source);
}

void WaiterDelivery::send_grants(GrantSource& source) noexcept {
  const std::span<api::Grant> grants = source.decider.grants();
  size_t kept = 0;
  for (const api::Grant& grant : grants) {
    ASSERT(grant.origin != shard_);
    if (!mailboxes_.post(grant)) grants[kept++] = grant;
  }
  source.kept = kept;
  source.decider.keep_grants(kept);
}

}  // namespace sluice::server
