// Decides the entries of a loop iteration, this shard's and other shards', and delivers verdicts.
// Flow:   execute(): the shard decides its entries, run by run -> waiters are registered with their
//         tickets, ids are taken -> each request's verdicts go to its session; if other shards
//         decide a part of it, when its last part has returned (on_returned()).
// Shape:  the entries lie in the context's turn, or in the message that brought them; its plain
//         ones become entries of a small array, which stays in the cache.
// Errors: none: every outcome is a Verdict. The verdicts for a session that has ended are dropped.
// Lives:  one per worker, one thread only. On the path of every request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "route/shard_message.hpp"
#include "route/split_book.hpp"
#include "server/request_ids.hpp"
#include "server/session_table.hpp"
#include "server/waiter_delivery.hpp"
#include "session/context.hpp"
#include "shard/key_decider.hpp"

namespace sluice::server {

class EntryDecisions {
 public:
  EntryDecisions(session::Context& context, SessionTable& sessions, route::SplitBook& book,
                 WaiterDelivery& waiters, shard::KeyDecider& keys, RequestIds& ids);

  // As in session::Backend.
  void execute() noexcept;

  // Decides the entries of another shard's message, and writes the answers into it.
  void decide_for(api::ShardId origin, route::ShardMessage& message) noexcept;
  // Takes the answers out of a message that `target` has returned.
  void on_returned(route::TargetId target, route::ShardMessage& message) noexcept;

  // For tests: the entries of a message that are being decided.
  struct Serving {
    const route::ShardMessage* message = nullptr;  // null: the turn's, or none
    uint32_t first_entry = 0;
  };
  const Serving& serving() const noexcept { return serving_; }

 private:
  void decide(const route::Run& run) noexcept;
  void keep_ids_of_owner(const route::ShardMessage& message) noexcept;
  void register_waiters() noexcept;
  void register_waiters(route::TargetId target, const route::ShardMessage& message,
                        const route::MessageRun& run) noexcept;
  uint64_t count_ids() noexcept;
  void assign_ids(uint64_t next_id) noexcept;
  void deliver_verdicts() noexcept;
  void deliver(const route::Request& request, const session::Verdicts& verdicts) noexcept;
  void deliver_complete(const route::ShardMessage& message) noexcept;
  void mark_draining(std::span<api::Entry> entries) const noexcept;
  void decide_plain(api::ShardId origin, const route::ShardMessage& message,
                    const route::MessageRun& run) noexcept;
  void decide_detailed(api::ShardId origin, const route::ShardMessage& message,
                       const route::MessageRun& run) noexcept;
  uint64_t queued_count() const noexcept {
    return keys_.statistics().decisions[static_cast<size_t>(api::Verdict::queued)];
  }

  session::Context& context_;
  SessionTable& sessions_;
  route::SplitBook& book_;
  WaiterDelivery& waiters_;
  shard::KeyDecider& keys_;
  RequestIds& ids_;
  const api::ShardId shard_;
  Serving serving_;
  // Of the plain entries of a message: as many as are decided at once.
  std::vector<api::Entry> entries_;
  std::vector<api::Detail> details_;
  std::vector<api::WaiterId> waiter_ids_;
  std::vector<route::Part> complete_;  // the last parts of requests, in a returned message
  bool executing_ = false;
};

}  // namespace sluice::server
