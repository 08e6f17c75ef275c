// Tickets and grants: the two ends of a waiter may be on different cores.
// Shape:  a ticket is free again when its outcome has come, its client was told or is gone, and no
//         notice names it any more, here or under way.
#include <vector>

#include "base/assert.hpp"
#include "server/worker.hpp"

namespace sluice::server {

using route::Notice;
using session::WaitEvent;
using session::WaitingEntry;
using session::WaitState;

api::Decider& Worker::decider_of(bool quota) const noexcept {
  if (quota) return *quotas_;
  return *keys_;
}

void Worker::withdraw(WaitingEntry& entry) noexcept {
  if (entry.owner == core_) {
    api::Decider& decider = decider_of(entry.quota);
    const bool left = decider.withdraw(entry.waiter, entry.ticket, context_.now, entry.owner);
    if (left) deliver_grants();
    return;
  }
  if (entry.notice.kind != Notice::Kind::none) return;  // asked before
  say(entry, Notice::Kind::withdraw);
}

void Worker::abandon(WaitingEntry& entry) noexcept {
  entry.follow(WaitEvent::client_gone);
  if (entry.state == WaitState::unclaimed) {
    if (!entry.notice.under_way) give_back(entry);  // else when the notice is back
    return;
  }
  if (entry.owner == core_) {
    // Else its grant is still in the list, and finds nobody.
    api::Decider& decider = decider_of(entry.quota);
    const bool left = decider.abandon(entry.waiter, entry.ticket, context_.now, entry.owner);
    if (left) context_.waits.give_back(entry.ticket);
    return;
  }
  if (entry.notice.under_way) return;  // withdrawn already: the outcome finds nobody
  say(entry, Notice::Kind::abandon);
}

// To the waiter's owner. A notice that still lies here says this instead.
void Worker::say(WaitingEntry& entry, Notice::Kind kind) noexcept {
  entry.notice.kind = kind;
  entry.notice.quota = entry.quota;
  entry.notice.waiter = entry.waiter;
  entry.notice.ticket = entry.ticket;
  if (!entry.notice.is_linked()) exchange_.post(entry.owner, entry.notice);
}

// At the waiter's owner.
void Worker::on_notice(api::CoreId origin, Notice& notice) noexcept {
  api::Decider& decider = decider_of(notice.quota);
  switch (notice.kind) {
    case Notice::Kind::withdraw:
      notice.done = decider.withdraw(notice.waiter, notice.ticket, context_.now, origin);
      return;
    case Notice::Kind::abandon:
      notice.done = decider.abandon(notice.waiter, notice.ticket, context_.now, origin);
      return;
    case Notice::Kind::give_back:
      notice.done = decider.refund(notice.permit, context_.now);
      return;
    case Notice::Kind::none:
      break;
  }
  ASSERT(false);
}

// At the ticket's core: the owner has seen the notice.
void Worker::on_notice_returned(const Notice& notice) noexcept {
  WaitingEntry& entry = context_.waits[notice.ticket];
  entry.notice.kind = Notice::Kind::none;
  entry.notice.under_way = false;
  if (entry.state == WaitState::ended) return context_.waits.free_ended(notice.ticket);
  const bool over = notice.kind == Notice::Kind::give_back ||
                    (notice.kind == Notice::Kind::abandon && notice.done);
  if (over) {
    context_.waits.give_back(notice.ticket);
  } else if (entry.state == WaitState::unclaimed) {
    give_back(entry);
  }
  // Else the outcome is still to come, or to be told.
}

void Worker::on_grant(const api::Grant& grant) noexcept {
  WaitingEntry& entry = context_.waits[grant.ticket];
  if (entry.state == WaitState::undecided) {
    early_grants_.push_back(grant);  // other parts of its request are not decided yet
    return;
  }
  entry.follow(WaitEvent::granted);
  // A permit of nothing: only what was approved is given back.
  entry.notice.permit = grant.verdict == api::Verdict::approved ? grant.permit : api::Permit{};
  if (entry.state == WaitState::unclaimed) {
    if (!entry.notice.under_way) give_back(entry);
    return;
  }
  session::Session* session = sessions_.at(entry.session);
  ASSERT(session != nullptr);
  session->on_granted(entry, grant);
}

// The outcome of an entry whose client is gone, or was gone before it was told. Its notice is not
// under way.
void Worker::give_back(WaitingEntry& entry) noexcept {
  const api::Permit& permit = entry.notice.permit;
  const bool approved = permit.cost > 0 || permit.reservation != 0;
  if (approved && entry.owner != core_) return say(entry, Notice::Kind::give_back);
  if (approved) decider_of(entry.quota).refund(permit, context_.now);
  entry.notice.unlink();
  entry.notice.kind = Notice::Kind::none;
  context_.waits.give_back(entry.ticket);
}

// A split request was delivered: its entries have joined, or nobody waits for them.
void Worker::deliver_early_grants() noexcept {
  if (early_grants_.empty()) return;
  std::erase_if(early_grants_, [this](const api::Grant& grant) {
    if (context_.waits[grant.ticket].state == WaitState::undecided) return false;
    on_grant(grant);
    return true;
  });
}

// Those of this core's connections; for the others send_grants() finds room.
void Worker::deliver_grants() noexcept {
  for (GrantSource& source : grant_sources_) deliver_grants(source);
}

void Worker::deliver_grants(GrantSource& source) noexcept {
  // A session that ends on its way may free more: by index, for the list grows.
  size_t kept = source.kept;
  for (size_t index = kept; index < source.decider.grants().size(); ++index) {
    const api::Grant grant = source.decider.grants()[index];
    if (grant.origin == core_) {
      on_grant(grant);
    } else {
      source.decider.grants()[kept++] = grant;
    }
  }
  source.kept = kept;
  source.decider.keep_grants(kept);
}

void Worker::send_grants() noexcept {
  for (GrantSource& source : grant_sources_) send_grants(source);
}

void Worker::send_grants(GrantSource& source) noexcept {
  const std::span<api::Grant> grants = source.decider.grants();
  size_t kept = 0;
  for (const api::Grant& grant : grants) {
    ASSERT(grant.origin != core_);
    if (!exchange_.post(grant)) grants[kept++] = grant;
  }
  source.kept = kept;
  source.decider.keep_grants(kept);
}

}  // namespace sluice::server
