// Decides the entries of a loop iteration, this shard's and other shards', and delivers verdicts.
// Flow:   execute(): entries of other shards go to the mailboxes, the shard decides its own, run by
//         run -> waiters are registered with their tickets, ids are taken -> each request's
//         verdicts go to its session; a split request's when its last part has returned
//         (on_returned()).
// Shape:  the entries lie in the context's turn, or in the message that brought them.
// Errors: none: every outcome is a Verdict. The verdicts for a session that has ended are dropped.
// Lives:  one per worker, one thread only. On the path of every request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "route/mailboxes.hpp"
#include "server/request_ids.hpp"
#include "server/session_table.hpp"
#include "server/waiter_delivery.hpp"
#include "session/context.hpp"
#include "shard/key_decider.hpp"

namespace sluice::server {

class EntryDecisions {
 public:
  EntryDecisions(session::Context& context, SessionTable& sessions, route::Mailboxes& mailboxes,
                 WaiterDelivery& waiters, shard::KeyDecider& keys, RequestIds& ids);

  // As in session::Backend.
  void execute() noexcept;
  bool has_turn_room(uint32_t entries_count, size_t key_bytes) const noexcept {
    return mailboxes_.has_turn_room(context_.turn, entries_count, key_bytes);
  }
  bool owns_key(std::string_view key) const noexcept {
    return mailboxes_.owner_of(key) == mailboxes_.here();
  }

  // Decides the entries of another shard's message, and writes the answers into it.
  void decide_for(api::ShardId origin, route::ShardMessage& message) noexcept;
  // Takes the answers out of a message that `target` has returned.
  void on_returned(api::ShardId target, const route::ShardMessage& message) noexcept;

  // For tests: the message with the entries that are being decided; null: the turn's, or none.
  const route::ShardMessage* serving() const noexcept { return serving_; }

 private:
  void decide(const route::Run& run) noexcept;
  void register_waiters() noexcept;
  uint64_t count_ids() noexcept;
  void assign_ids(uint64_t next_id) noexcept;
  void deliver_verdicts() noexcept;
  void deliver(const route::Request& request, const session::Verdicts& verdicts) noexcept;
  void deliver_split(route::SplitBook::Index split) noexcept;
  uint64_t queued_count() const noexcept {
    return keys_.statistics().decisions[static_cast<size_t>(api::Verdict::queued)];
  }

  session::Context& context_;
  SessionTable& sessions_;
  route::Mailboxes& mailboxes_;
  WaiterDelivery& waiters_;
  shard::KeyDecider& keys_;
  RequestIds& ids_;
  const api::ShardId shard_;
  const route::ShardMessage* serving_ = nullptr;
  bool executing_ = false;
};

}  // namespace sluice::server
