// One shard's loop: bytes in, a turn's entries decided together, answers out.
// Flow:   turn(): Io::poll() -> sessions -> decisions -> what other shards sent -> sessions
//         -> due timers -> what goes to other shards -> one send a connection -> what survives a
//         restart.
// Shape:  owns the deciders of its shard, every session of its sockets, and the parts that do the
//         work: EntryDecisions, WaiterDelivery, ShardQueries, QuotaTasks, ConnectionPlacement and
//         SessionRunner. This class only calls them in order. It uses the kernel through Io, and
//         other workers through its Mailboxes only, so that the simulator can drive it.
// Errors: the constructor throws when memory cannot be had; nothing else does.
// Lives:  one thread; `io` and `worker_group` outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "io/io.hpp"
#include "peer/peers.hpp"
#include "quota/quota_decider.hpp"
#include "route/entry_router.hpp"
#include "route/mailboxes.hpp"
#include "server/connection_placement.hpp"
#include "server/deciders.hpp"
#include "server/entry_decisions.hpp"
#include "server/moved_quotas.hpp"
#include "server/node_calls.hpp"
#include "server/node_queries.hpp"
#include "server/quota_tasks.hpp"
#include "server/return_poll.hpp"
#include "server/session_backend.hpp"
#include "server/session_runner.hpp"
#include "server/session_table.hpp"
#include "server/shard_queries.hpp"
#include "server/shard_statistics.hpp"
#include "server/stand_in.hpp"
#include "server/state_keeper.hpp"
#include "server/waiter_delivery.hpp"
#include "server/worker_group.hpp"
#include "server/worker_options.hpp"
#include "session/context.hpp"
#include "shard/key_decider.hpp"

namespace sluice::server {

// Of a worker's Io: connections of clients, and to other nodes.
uint32_t sockets_max(const WorkerOptions& options);

class Worker final : private ShardStatisticsSource {
 public:
  Worker(io::Io& io, const WorkerOptions& options, WorkerGroup& worker_group, Deciders deciders);
  ~Worker();

  // Of an earlier start, before anything else. Throws when the state cannot be read.
  RestoredWindows restore_windows();
  // Likewise quotas whose subjects other nodes own now, once callers are accepted.
  void hand_over(std::vector<quota::MovedQuota> moved) { moved_quotas_.begin(std::move(moved)); }
  // Accepts from now on.
  void start() noexcept;

  // One turn; waits for events at most `wait_ns_max`.
  void turn(int64_t wait_ns_max) noexcept;

  // Applies new rules, between two turns; returns the rules that they replace.
  std::unique_ptr<policy::RuleBook> adopt(std::unique_ptr<policy::RuleBook> rules) noexcept;

  // Refuses new work, answers waiters, ends connections, until drained(). Other shards may need
  // this one until they are drained too: go on with turns.
  void begin_drain() noexcept;
  bool drained() const noexcept;
  // Behind the last turn, and before any worker of the group is destroyed: a waiter that leaves may
  // have another one served, whose answer is in its own worker's memory.
  void close_sessions() noexcept { runner_.close_all(); }

  const WorkerStatistics& statistics() const noexcept { return statistics_; }
  const shard::KeyDecider& keys() const noexcept { return *keys_; }
  const quota::QuotaDecider& quotas() const noexcept { return *quotas_; }
  const route::Mailboxes& mailboxes() const noexcept { return mailboxes_; }
  uint32_t sessions_count() const noexcept { return sessions_.open_count(); }
  uint32_t tickets_count() const noexcept { return context_.waits.tickets_count(); }
  uint32_t waiting_frames_count() const noexcept { return context_.waits.frames_count(); }
  uint64_t reserved_bytes() const noexcept;

  // Polls for messages that are about to return, and prepares to sleep: until the next turn, any
  // shard that sends this one something wakes it. Returns how long that turn may wait for events,
  // in nanoseconds.
  int64_t prepare_poll() noexcept;

  // For tests: other nodes, of a server that has some; the entries that are being decided; the
  // message that they came in, if any.
  const peer::Peers* peers() const noexcept { return peers_.get(); }
  const route::Turn& undecided() const noexcept { return context_.turn; }
  const EntryDecisions::Serving& serving() const noexcept { return decisions_.serving(); }
  const route::EntryRouter& router() const noexcept { return router_; }
  uint32_t tasks_count() const noexcept { return tasks_.used_count(); }
  uint32_t debug_walks_count() const noexcept { return context_.debug_walks_count; }
  // Null when the socket has no session.
  const session::Session* session_of(io::SocketId socket) noexcept {
    return sessions_.find(socket);
  }
  // Other shards have sent messages that the next turn will take.
  bool has_messages() noexcept { return mailboxes_.has_messages(); }
  // No message, ticket, own call or moving connection is left between this shard and others.
  bool idle() const noexcept;
  // Calls of other nodes wait in this one's queues.
  bool has_visited_waiters() const noexcept { return quota_tasks_.has_visited_waiters(); }
  void check_invariants() const noexcept {
    keys_->check_invariants(context_.now);
    quotas_->check_invariants(context_.now);
  }

 private:
  friend class route::Mailboxes;  // calls on_message() and on_returned()
  // These call on_returned(), on_parcel(), on_notice_returned(), on_grant() and on_unclaimed().
  friend class peer::Peers;
  friend class peer::PeerTarget;

  ShardStatistics shard_statistics() const noexcept override;
  ProcessStatistics process_statistics() const noexcept override;
  void add_node_statistics(std::vector<NodeStatistics>& nodes) const override;

  // For route::Mailboxes: a message of another shard, and one of ours that it has answered.
  void on_message(api::ShardId origin, route::ShardMessage& message) noexcept;
  void on_returned(route::TargetId target, route::ShardMessage& message) noexcept;
  bool decide(const route::ShardTask& task) noexcept;
  // For peer::Peers.
  void on_notice_returned(const route::Notice& notice) noexcept {
    waiters_.on_notice_returned(notice);
  }
  void on_grant(const api::Grant& grant) noexcept { waiters_.on_grant(grant); }
  void on_stranded(peer::PeerTarget& target, peer::Outgoing& outgoing) noexcept {
    stand_in_.begin(target, outgoing);
  }
  void on_parcel(peer::QuotaParcel& parcel) noexcept;
  void on_unclaimed(uint64_t reservation) noexcept { quota_tasks_.cancel_undelivered(reservation); }

  bool is_of_other_node(const io::Event& event) const noexcept;
  void start_accepting() noexcept;
  void begin_turn_of_peers() noexcept;
  void end_lost_bindings() noexcept;
  void wake_others() noexcept;
  void warn_of_nodes() noexcept;
  int64_t wait_ns() const noexcept;
  void on_event(const io::Event& event) noexcept;
  void adopt(route::Handover& handover) noexcept;
  void publish_waiting() noexcept;
  void keep_state() noexcept;
  void send_messages() noexcept;
  void check_drain() noexcept;

  io::Io& io_;
  WorkerGroup& worker_group_;
  const int64_t drain_ms_;
  const StateSource* const stored_windows_;  // null: there are none
  const std::unique_ptr<shard::KeyDecider> keys_;
  const std::unique_ptr<quota::QuotaDecider> quotas_;
  route::Mailboxes mailboxes_;
  SessionBackend backend_;
  session::Context context_;
  route::EntryRouter router_;
  SessionTable sessions_;
  WaiterDelivery waiters_;
  TaskSlots tasks_;  // of both kinds
  ShardQueries queries_;
  NodeQueries node_queries_;
  WindowKeeper windows_;
  StateKeeper keeper_;
  NodeCalls node_calls_;
  MovedQuotas moved_quotas_;
  QuotaTasks quota_tasks_;
  EntryDecisions decisions_;
  StandIn stand_in_;
  SessionRunner runner_;
  ConnectionPlacement placement_;
  ReturnPoll return_poll_;
  peer::TopologyBook topology_;
  std::unique_ptr<peer::Peers> peers_;      // null: there are no other nodes
  int64_t accepts_at_ms_ = base::never_ms;  // at the latest, before it has begun
  bool knows_peers_ = false;                // each was connected, or tried
  std::vector<io::Event> events_;
  WorkerStatistics statistics_;
  RateWindow rates_;
  int64_t drain_deadline_ms_ = base::never_ms;  // while it drains
  bool has_ended_drain_ = false;                // it took too long
  bool was_force_closed_ = false;               // in a later turn
  uint32_t listeners_open_ = 0;
  uint64_t calls_kept_ = 0;  // quota calls before the last step of the keeper
  uint64_t misrouted_noted_ = 0;
  uint64_t calls_dropped_noted_ = 0;
};

}  // namespace sluice::server
