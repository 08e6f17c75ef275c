// One core's loop: bytes in, a turn's entries decided together, answers out.
// Flow:   turn(): Io::poll() -> sessions -> execute(): shard -> what other cores sent -> sessions
//         -> due timers -> what goes to other cores -> one send a connection.
// Shape:  owns what decides on its shard and every session of its sockets; talks to the kernel
//         through Io, and to other workers through its Exchange only, so that the simulator can
//         drive it.
//         worker.cpp (turn, connections, draining), worker_decide.cpp (entries and their answers).
// Errors: the constructor throws when memory cannot be had; nothing else does.
// Lives:  one thread; `io` and `crew` outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/io.hpp"
#include "quota/quota_decider.hpp"
#include "route/exchange.hpp"
#include "server/census.hpp"
#include "server/connection_placement.hpp"
#include "server/crew.hpp"
#include "server/deciders.hpp"
#include "server/quota_tasks.hpp"
#include "server/session_table.hpp"
#include "server/shard_queries.hpp"
#include "server/waiter_delivery.hpp"
#include "server/worker_options.hpp"
#include "session/context.hpp"
#include "shard/key_decider.hpp"

namespace sluice::server {

class Worker final : private session::Backend, private CensusSource {
 public:
  Worker(io::Io& io, const WorkerOptions& options, Crew& crew, Deciders deciders);
  ~Worker();

  // Accepts from now on.
  void start() noexcept;

  // One loop turn; waits for events at most `wait_ns_max`.
  void turn(int64_t wait_ns_max) noexcept;

  // Rules that hold from now on, between two turns; returns those that held before.
  std::unique_ptr<policy::RuleBook> adopt(std::unique_ptr<policy::RuleBook> rules) noexcept;

  // Refuses new work, answers waiters, ends connections; over when drained(). Until the others are
  // drained too they may need this shard: go on with turns.
  void begin_drain() noexcept;
  bool drained() const noexcept;

  const WorkerStatistics& statistics() const noexcept { return statistics_; }
  const shard::KeyDecider& keys() const noexcept { return *keys_; }
  const quota::QuotaDecider& quotas() const noexcept { return *quotas_; }
  const route::Exchange& exchange() const noexcept { return exchange_; }
  uint32_t sessions_count() const noexcept { return sessions_.open_count(); }
  uint32_t tickets_count() const noexcept { return context_.waits.tickets_count(); }
  uint32_t waiting_frames_count() const noexcept { return context_.waits.frames_count(); }
  uint64_t reserved_bytes() const noexcept;

  // How long the next turn may wait for events. Whoever sends this core something from now on, and
  // until that turn, wakes it.
  int64_t settle_down() noexcept;

  // For tests. What is being decided, and for whom; the crossing that it came in, if it did.
  const route::Turn& undecided() const noexcept { return context_.turn; }
  const route::Crossing* serving() const noexcept { return serving_; }
  // Other cores have sent something that the next turn will take.
  bool has_mail() noexcept { return exchange_.anything_came(); }
  // Nothing is owed to other cores, or by them.
  bool idle() const noexcept;
  void check_invariants() const noexcept {
    keys_->check_invariants(context_.now);
    quotas_->check_invariants(context_.now);
  }

 private:
  friend class route::Exchange;  // calls on_crossing() and on_returned()

  // session::Backend
  void execute() noexcept override;
  bool admits(uint32_t entries_count, size_t key_bytes) const noexcept override;
  bool is_here(std::string_view key) const noexcept override;
  api::Handle intern(std::string_view key) noexcept override { return keys_->intern(key); }
  void let_go(api::Handle handle) noexcept override { keys_->free_handle(handle); }
  std::string_view key_of(api::Handle handle) const noexcept override {
    return keys_->key_of(handle);
  }
  bool awaits(const session::Session& session, uint64_t id) const noexcept override;
  void withdraw(session::WaitingEntry& entry) noexcept override { waiters_.withdraw(entry); }
  void abandon(session::WaitingEntry& entry) noexcept override { waiters_.abandon(entry); }
  bool may_look() const noexcept override { return tasks_.has_room(); }
  void inspect(session::Session& session, uint64_t id, std::string_view key) noexcept override {
    queries_.inspect(session, id, key);
  }
  void page(session::Session& session, uint64_t id, uint64_t cursor,
            uint32_t keys_max) noexcept override {
    queries_.page(session, id, cursor, keys_max);
  }
  void count_keys(session::Session& session, uint64_t id) noexcept override {
    queries_.count_keys(session, id);
  }
  void metrics(session::Session& session, uint64_t id) noexcept override {
    queries_.metrics(session, id);
  }
  void top(session::Session& session, uint64_t id, uint32_t keys_max) noexcept override {
    queries_.top(session, id, keys_max);
  }
  api::QuotaBatch& take_batch() noexcept override { return quota_tasks_.take_batch(); }
  void ask(session::Session& session, uint64_t id, api::QuotaBatch& batch) noexcept override {
    quota_tasks_.ask(session, id, batch);
  }
  bool spans_cores(const api::QuotaBatch& batch) const noexcept override {
    return quota_tasks_.spans_shards(batch);
  }
  void give_back(uint64_t reservation) noexcept override {
    quota_tasks_.cancel_undelivered(reservation);
  }
  void end_tie(uint64_t tie) noexcept override { quota_tasks_.end_tie(tie); }
  void move(session::Session& session, uint32_t shard) noexcept override {
    placement_.move(session, shard);
  }

  Census census() const noexcept override;

  // worker.cpp
  int64_t wait_ns() const noexcept;
  void on_event(const io::Event& event) noexcept;
  void on_session_event(const io::Event& event) noexcept;
  void adopt(route::Handover& handover) noexcept;
  void resume_ready() noexcept;
  void run_timers() noexcept;
  void end_turn() noexcept;
  void send_off() noexcept;
  void let_go_departed() noexcept;
  void check_drain() noexcept;

  // worker_decide.cpp
  void decide(const route::Run& run) noexcept;
  void name_waiters() noexcept;
  uint64_t count_ids() noexcept;
  void assign_ids(uint64_t next_id) noexcept;
  void deliver_verdicts() noexcept;
  void deliver(const route::Request& request, const session::Verdicts& verdicts) noexcept;
  void deliver_split(route::SplitBook::Index split) noexcept;
  void on_crossing(api::CoreId origin, route::Crossing& crossing) noexcept;
  void on_returned(api::CoreId target, route::Crossing& crossing) noexcept;
  void unblock() noexcept;

  io::Io& io_;
  Crew& crew_;
  const uint32_t core_;
  const int64_t drain_ms_;
  const int64_t spin_ns_;
  const std::unique_ptr<shard::KeyDecider> keys_;
  const std::unique_ptr<quota::QuotaDecider> quotas_;
  route::Exchange exchange_;
  session::Context context_;
  SessionTable sessions_;
  WaiterDelivery waiters_;
  TaskSlots tasks_;  // of both kinds
  ShardQueries queries_;
  QuotaTasks quota_tasks_;
  ConnectionPlacement placement_;
  std::vector<io::Event> events_;
  WorkerStatistics statistics_;
  RateWindow rates_;
  const route::Crossing* serving_ = nullptr;
  int64_t busy_ns_ = 0;  // when there was something to do last
  int64_t drain_deadline_ms_ = 0;
  uint32_t listeners_open_ = 0;
  bool executing_ = false;
};

}  // namespace sluice::server
