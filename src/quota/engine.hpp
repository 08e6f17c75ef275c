// Decides a store's calls: reads each, consults the tables, charges, and has waiters served.
// Flow:   decide(): a CallGroup fetches ahead for calls of the batch -> CallResolver: the call's
//         LimitedSubjects and Request -> charged and opened in the ReservationBook, or queued, or
//         denied -> answers. A call that frees quota marks the queues that this may help; the
//         QueueServer serves them.
// Shape:  engine.cpp (steps, timers), engine_decide.cpp (reserve, consume, check, record),
//         engine_quota.cpp (quotas that change). Each part refers only to those before it: clock
//         and budget, subjects, reservations, queues, and the parts that work on all of them.
// Units:  as QuotaStore.
// Errors: none: every outcome is a QuotaCode.
// Lives:  as QuotaStore, which is its public face.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>

#include "base/timer_wheel.hpp"
#include "quota/answer_sources.hpp"
#include "quota/book_adoption.hpp"
#include "quota/call_clock.hpp"
#include "quota/call_group.hpp"
#include "quota/call_resolver.hpp"
#include "quota/change_log.hpp"
#include "quota/claims.hpp"
#include "quota/client_ids.hpp"
#include "quota/current_book.hpp"
#include "quota/cut_writer.hpp"
#include "quota/joining_waiters.hpp"
#include "quota/limited_subjects.hpp"
#include "quota/obstacle.hpp"
#include "quota/owner_names.hpp"
#include "quota/queue_server.hpp"
#include "quota/quota_changes.hpp"
#include "quota/quota_store.hpp"
#include "quota/repeated_calls.hpp"
#include "quota/reservation_book.hpp"
#include "quota/reservation_lifecycle.hpp"
#include "quota/spread_decider.hpp"
#include "quota/spread_waiters.hpp"
#include "quota/subject_table.hpp"
#include "quota/undecided_calls.hpp"
#include "quota/wait_queues.hpp"
#include "quota/work_budget.hpp"

namespace sluice::quota {

class Engine {
 public:
  explicit Engine(const Options& options);

  // As in QuotaStore.
  void decide(api::QuotaBatch& batch, base::Now now, api::ShardId origin) noexcept;
  bool withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::ShardId origin) noexcept;
  bool abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::ShardId origin) noexcept;
  bool refund(uint64_t reservation, base::Now now) noexcept;
  void drain(base::Now now) noexcept;
  void adopt(policy::QuotaBook& book, base::Now now) noexcept;
  void run_due(base::Now now) noexcept;
  int64_t next_due_ns() const noexcept;
  std::span<api::Grant> grants() noexcept { return server_.grants(); }
  void keep_grants(size_t count) noexcept { server_.keep_grants(count); }
  std::string_view unknown_subject() const noexcept { return resolver_.unknown_subject(); }
  std::deque<api::QuotaCall>& outgoing_calls() noexcept { return outgoing_; }
  bool has_tries() const noexcept { return spread_waiters_.has_tries(); }
  void next_try(api::QuotaBatch& batch) noexcept { spread_waiters_.next_try(batch); }
  void end_try(const api::QuotaBatch& batch, base::Now now) noexcept;
  bool has_claims() const noexcept { return claims_.has_any(); }
  bool has_changes() const noexcept;
  void begin_cut(state::StateSink& sink, const CutStart& start) noexcept;
  bool hand_over(uint32_t records) noexcept { return cut_writer_.write_some(records); }
  CutFacts cut_facts() const noexcept { return cut_writer_.facts(); }
  void write_all() noexcept;
  Restored restore(const StoredState& stored, base::Now now);
  void drop_moved_quota(std::string_view name, base::Now now) noexcept;
  uint32_t subjects_count() const noexcept { return subjects_.pool().used(); }
  uint32_t reservations_count() const noexcept { return reservations_.open_count(); }
  uint32_t waiters_count() const noexcept { return queues_.waiting_count(); }
  const Statistics& statistics() const noexcept { return statistics_; }
  uint64_t reserved_bytes() const noexcept;
  void check_invariants(base::Now now) const noexcept;

 private:
  // engine.cpp
  void fire_timers() noexcept;
  void on_wake(Waiter& waiter) noexcept;

  // engine_restore.cpp
  void resume_clock(const StoredState& stored, base::Now now) noexcept;

  // engine_decide.cpp
  void decide_own(api::QuotaBatch& batch, api::ShardId origin) noexcept;
  void decide_beside_claims(api::QuotaBatch& batch, api::ShardId origin) noexcept;
  void on_ended(api::QuotaBatch& batch, size_t index, ReservationLifecycle::Ended ended) noexcept;
  void finish_extends(api::QuotaBatch& batch) noexcept;
  void end_parts(api::QuotaBatch& batch) noexcept;
  void decide_other(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept;
  void decide_one(api::QuotaBatch& batch, size_t index, size_t place, api::ShardId origin) noexcept;
  void ask_admission(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
                     api::ShardId origin) noexcept;
  [[gnu::noinline]] bool charge_and_log(const LimitedSubjects& limited,
                                        const limiter::Shares& shares) noexcept;
  bool fits(const Request& request, const LimitedSubjects& limited, const limiter::Shares& shares,
            bool has_place) noexcept;
  void admit(const Request& request, const LimitedSubjects& limited, const api::QuotaBatch& batch,
             size_t index, api::QuotaAnswer& answer) noexcept;
  void refuse(api::QuotaBatch& batch, size_t index, const LimitedSubjects& limited,
              const Request& request, api::ShardId origin) noexcept;
  Obstacle obstacle_of(const LimitedSubjects& own, const Request& request) noexcept;
  void check(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept;
  void record(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept;
  void answer_position(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept;
  void answer_question(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept;
  void set_outcome(api::QuotaOp op, api::QuotaCode code, api::QuotaAnswer& answer) noexcept;
  void deny(api::QuotaBatch& batch, size_t index, const LimitedSubjects& limited,
            const Request& request, api::QuotaCode code, const Obstacle& obstacle) noexcept;
  AnswerSources sources() noexcept { return {clock_, book_, subjects_, reservations_}; }

  // engine_quota.cpp
  bool names_one(api::QuotaBatch& batch, size_t index) const noexcept;
  void put(api::QuotaBatch& batch, size_t index, const NameHash& hash) noexcept;
  void remove(api::QuotaBatch& batch, size_t index, const NameHash& hash) noexcept;
  void reset(api::QuotaBatch& batch, size_t index, const NameHash& hash) noexcept;
  bool has_run_time_quota(SubjectIndex subject) noexcept;
  void reset_all() noexcept;

  const Options options_;
  Statistics statistics_;
  CallClock clock_;
  WorkBudget budget_;
  base::TimerWheel wheel_{0};

  std::deque<api::QuotaCall> outgoing_;

  ChangeLog log_;
  QuotaChanges quota_changes_;
  CurrentBook book_;
  SubjectTable subjects_;
  BookAdoption adoption_;

  OwnerNames owners_;
  ClientIds client_ids_;
  ReservationBook reservations_;
  Claims claims_;
  CutWriter cut_writer_;

  WaitQueues queues_;
  SpreadWaiters spread_waiters_;
  RepeatedCalls repeats_;
  QueueServer server_;
  JoiningWaiters joining_;
  ReservationLifecycle lifecycle_;

  CallResolver resolver_;
  CallGroup group_;
  UndecidedCalls undecided_;
  SpreadDecider spread_;
};

}  // namespace sluice::quota
