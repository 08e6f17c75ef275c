// Delivers outcomes to waiters. The two ends of a waiter may be on different shards: the owner has
// it in a queue, its session has a ticket for it.
// Flow:   grants of the owner's deciders -> the session, here or through the mailboxes;
//         a session that withdraws or has ended -> a notice -> the owner -> the notice returns.
// Shape:  a ticket is free again when its entry has ended (session/wait_state.hpp) and no notice
//         names it any more, here or under way.
// Errors: none. Grants for another shard that takes no more stay in the decider until it does.
// Lives:  one per worker, one thread only.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "api/decider.hpp"
#include "api/entry.hpp"
#include "route/mailboxes.hpp"
#include "server/session_table.hpp"
#include "session/context.hpp"

namespace sluice::server {

class WaiterDelivery {
 public:
  // `grants_max`: bound of the grants that may arrive before their request is complete.
  WaiterDelivery(session::Context& context, SessionTable& sessions, route::Mailboxes& mailboxes,
                 api::Decider& keys, api::Decider& quotas, size_t grants_max);

  // As in session::Backend.
  void withdraw(session::WaitingEntry& entry) noexcept;
  void abandon(session::WaitingEntry& entry) noexcept;

  void refund(const api::RefundClaim& claim, api::ShardId owner) noexcept;
  // This node stops: its clients that wait at another one leave there; their answer is `draining`.
  void leave_other_nodes() noexcept;

  // A waiter was queued by shard `owner`.
  void on_queued(api::Ticket ticket, api::WaiterId waiter, route::TargetId owner) noexcept {
    session::WaitingEntry& entry = context_.waits[ticket];
    entry.waiter = waiter;
    entry.owner = owner;
  }
  // By the shard of this node that owns the key.
  void on_queued(api::Ticket ticket, api::WaiterId waiter, std::string_view key) noexcept {
    on_queued(ticket, waiter, mailboxes_.shard_of(key));
  }
  // As session::free_or_abandon(), for a connection that has ended.
  void free_or_abandon(api::Ticket ticket, bool is_queued) noexcept;

  // Between shards: a notice at the waiter's owner; the same notice, returned to the ticket's
  // shard; the grant of another shard.
  void on_notice(api::ShardId origin, route::Notice& notice) noexcept;
  void on_notice_returned(const route::Notice& notice) noexcept;
  void on_grant(const api::Grant& grant) noexcept;

  // Delivers what the deciders have granted to this shard's connections; send_grants() sends the
  // grants of the others, as far as there is room.
  void deliver_grants() noexcept;
  // Delivers grants that arrived before their request was complete, as far as it is complete now.
  void deliver_early_grants() noexcept;
  void send_grants() noexcept;

 private:
  // A decider, and how many of its grants are kept for shards that take no more.
  struct GrantSource {
    api::Decider& decider;
    size_t kept = 0;  // at the front
  };

  api::Decider& decider_of(session::WaitsFor what) const noexcept {
    return sources_[static_cast<size_t>(what)].decider;
  }
  void deliver_grants(GrantSource& source) noexcept;
  void send_grants(GrantSource& source) noexcept;
  void refund(session::WaitingEntry& entry) noexcept;
  void send_notice(session::WaitingEntry& entry, route::Notice::Kind kind) noexcept;
  bool is_at_other_node(const session::WaitingEntry& entry) const noexcept {
    return entry.owner >= mailboxes_.shards_count();
  }
  api::Grant outcome_of(session::WaitingEntry& entry, api::Grant grant) noexcept;

  session::Context& context_;
  SessionTable& sessions_;
  route::Mailboxes& mailboxes_;
  const api::ShardId shard_;
  std::array<GrantSource, 2> sources_;  // keys, quotas
  std::vector<api::Grant> early_grants_;
};

}  // namespace sluice::server
