// Takes batches of quota calls to the shards that decide them, and back.
// Flow:   a session fills a batch -> ask() -> decide() at each shard that a call belongs to ->
//         on_decided() where it was asked -> the session.
// Shape:  a batch with calls of several shards goes from one to the next; so does a call that is of
//         every shard. One with a call whose own subjects several shards have is decided in rounds
//         (api::Pass). A batch that awaits the verdict on another one is kept at the shard where it
//         does, holds nothing, and is decided again after verdicts there. The worker has calls of
//         its own: to cancel undelivered reservations, to end those bound to a connection, those
//         that its store has for other shards, and waiters of several shards that are to be tried;
//         they wait until a task is free.
//         Calls of other nodes are taken out of a batch before, and their answers put into it when
//         all are known (NodeCalls).
//         A batch whose subjects several nodes have visits them in the same rounds (NodeVisits);
//         so does this node take part in deciding theirs (VisitedParts, VisitedWaiters).
//         Where quotas have changed and a state is kept, the answers wait until that is durable.
//         While it fails nothing is changed (UndurableTasks).
// Errors: without a free task (may_query()) the session waits. When a session has ended, what its
//         batch reserved is cancelled.
// Lives:  one per worker, one thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "api/quota.hpp"
#include "io/io.hpp"
#include "quota/quota_decider.hpp"
#include "quota/spread_round.hpp"
#include "route/mailboxes.hpp"
#include "server/arrival_clock.hpp"
#include "server/node_calls.hpp"
#include "server/node_task_pool.hpp"
#include "server/node_visits.hpp"
#include "server/quota_log.hpp"
#include "server/quota_task.hpp"
#include "server/session_table.hpp"
#include "server/state_keeper.hpp"
#include "server/undurable_tasks.hpp"
#include "server/visited_parts.hpp"
#include "server/visited_waiters.hpp"
#include "server/waiter_delivery.hpp"
#include "session/context.hpp"

namespace sluice::server {

// How many calls of the worker's own may be waiting for a task.
struct OwnCallBounds {
  size_t cancels_max;
  size_t bindings_max;
};

class QuotaTasks {
 public:
  QuotaTasks(io::Io& io, session::Context& context, SessionTable& sessions,
             route::Mailboxes& mailboxes, WaiterDelivery& waiters, quota::QuotaDecider& quotas,
             StateKeeper& keeper, NodeCalls& nodes, const peer::FleetOptions& fleet,
             TaskSlots& slots, ArrivalClock& arrival_clock, const OwnCallBounds& bounds);

  // There are other nodes.
  void attach(peer::ParcelSender& sender) noexcept { visits_.attach(sender); }

  // As in session::Backend.
  api::QuotaBatch& take_batch() noexcept;
  api::QuotaBatch& take_node_batch() noexcept;
  void ask(const session::Session& session, uint64_t id, api::QuotaBatch& batch) noexcept;
  bool spans_shards(const api::QuotaBatch& batch) const noexcept;
  void cancel_undelivered(uint64_t reservation) noexcept;
  void end_binding(uint64_t binding) noexcept;
  bool awaits(const Asker& asker) const noexcept {
    return pool_.awaits(asker) || node_tasks_.awaits(asker);
  }

  // Another shard has sent a task. True: this shard has decided its calls, and the task goes back
  // with the message; false: it stays here, or it is one of ours that stayed there.
  bool on_sent(QuotaTask& task) noexcept;
  // At the shard that asked: the calls of shard `task.shard` are decided.
  void on_decided(QuotaTask& task) noexcept;
  // Another node has answered, or will not.
  void on_parcel(peer::QuotaParcel& parcel) noexcept;

  bool has_own_calls() const noexcept { return has_calls() || may_try(); }
  bool has_work() const noexcept {
    return (has_own_calls() && pool_.has_room()) || may_retry() || nodes_.has_own_calls();
  }
  // No task of another node is under way, nor of this one at another.
  bool is_idle_for_nodes() const noexcept {
    return node_tasks_.used_count() == 0 && visits_.is_idle();
  }
  // Calls of other nodes wait in this node's queues, too.
  bool has_visited_waiters() const noexcept { return !visited_waiters_.is_empty(); }
  void make_own_calls() noexcept;
  // Decides batches that were kept, now that other calls have a verdict.
  void retry_kept() noexcept;
  bool keeps_any() const noexcept { return !kept_.empty(); }
  // Answers what has become durable, or will not.
  void answer_durable() noexcept;
  bool has_undurable() const noexcept { return undurable_.has_any(); }
  int64_t durable_due_ns() const noexcept { return undurable_.due_ns(); }
  // Calls that this shard has decided, or tried to.
  uint64_t calls_count() const noexcept { return calls_count_; }

  uint64_t reserved_bytes() const noexcept { return undelivered_.capacity() * sizeof(uint64_t); }

 private:
  uint32_t owner_of(const api::QuotaBatch& batch, const api::QuotaCall& call) const noexcept;
  bool is_spread(const api::QuotaBatch& batch, const api::QuotaCall& call) const noexcept;
  bool stays_on_node(std::span<const std::string_view> names) const noexcept;
  api::ShardId stop_of(std::string_view name) const noexcept;
  void spread(api::QuotaBatch& batch) noexcept;
  void find_stops(api::QuotaBatch& batch, uint32_t index) noexcept;
  void find_waiting_stops(api::QuotaBatch& batch, uint32_t index) noexcept;
  void note_arrival(api::QuotaBatch& batch) noexcept;
  uint32_t next_stop(QuotaTask& task) const noexcept;
  void start_visit(QuotaTask& task) noexcept;
  void finish_visit(QuotaTask& task) noexcept;
  void refuse_held(const api::QuotaBatch& batch) noexcept;
  void end_visited_waits(const api::QuotaBatch& batch) noexcept;
  void forget_bindings(const api::QuotaBatch& batch) noexcept;
  void end_overdue() noexcept;
  void end_failed(QuotaTask& task) noexcept;
  void free(QuotaTask& task) noexcept;
  void start(QuotaTask& task) noexcept;
  void start_here(QuotaTask& task) noexcept;
  void go_on(QuotaTask& task) noexcept;
  void go_on_later(QuotaTask& task) noexcept;
  bool decide_or_keep(QuotaTask& task) noexcept;
  void keep(QuotaTask& task) noexcept;
  void note_kept(const QuotaTask& task) noexcept;
  size_t retry(QuotaTask& task) noexcept;
  void decide(QuotaTask& task) noexcept;
  void after_decide(QuotaTask& task) noexcept;
  void continue_page(api::QuotaCall& call, api::QuotaAnswer& answer) const noexcept;
  void finish(QuotaTask& task) noexcept;
  void answer(QuotaTask& task) noexcept;
  void answer_or_keep(QuotaTask& task) noexcept;
  void deliver_grants() noexcept;
  void note_queued(const api::QuotaBatch& batch) noexcept;
  void drop_answers(const api::QuotaBatch& batch) noexcept;
  bool has_calls() const noexcept {
    return !undelivered_.empty() || !failed_.empty() || !ended_bindings_.empty() ||
           !quotas_.outgoing_calls().empty();
  }
  bool may_try() const noexcept { return quotas_.has_tries() && tries_ < tries_max_; }
  bool may_retry() const noexcept {
    return !kept_.empty() &&
           (has_verdicts_ || is_retrying_ || visit_over_ns_ <= context_.now.monotonic_ns);
  }
  void start_try(QuotaTask& task) noexcept;
  void fill_own_calls(api::QuotaBatch& batch) noexcept;

  io::Io& io_;
  session::Context& context_;
  SessionTable& sessions_;
  route::Mailboxes& mailboxes_;
  WaiterDelivery& waiters_;
  quota::QuotaDecider& quotas_;
  StateKeeper& keeper_;
  NodeCalls& nodes_;
  NodeVisits visits_;
  NodeTaskPool node_tasks_;
  VisitedParts visited_;
  VisitedWaiters visited_waiters_;
  const quota::Stops stops_;
  QuotaLog log_;
  TaskPool<QuotaTask> pool_;
  UndurableTasks undurable_;
  QuotaTask* filling_ = nullptr;          // a session has taken its batch, and not called ask() yet
  QuotaTask* filling_of_node_ = nullptr;  // likewise, for another node
  std::vector<uint64_t> undelivered_;     // reservations to be cancelled
  std::vector<uint64_t> failed_;          // likewise, also those that clients may know
  std::vector<uint64_t> ended_bindings_;  // bindings with reservations that are to end
  std::vector<QuotaTask*> kept_;          // in the order in which they came
  std::vector<QuotaTask*> retried_;       // that need not be kept any more
  bool has_verdicts_ = false;             // since the kept ones were tried last
  bool is_retrying_ = false;              // those from this place on are still to be tried:
  size_t retry_at_ = 0;
  int64_t visit_over_ns_ = base::never_ns;  // a kept task whose home does not wait any more
  uint64_t arrivals_ = 0;                   // of calls
  ArrivalClock& arrival_clock_;
  uint64_t calls_count_ = 0;
  const uint32_t tries_max_;  // under way: waiters leave tasks to sessions
  uint32_t tries_ = 0;
};

}  // namespace sluice::server
