// Serves the waiters: admits them in order as soon as they fit, and ends their waits when they
// withdraw, when their wait limit passes, when they can never fit, or when the server drains.
// Flow:   join() -> a call or timer marks a queue (SubjectTable::to_serve) -> serve_marked() ends
//         the waits that a new quota has ruled out (QueueScan), tries the head, then waiters that
//         may overtake it -> a reservation and a grant.
// Shape:  where many waiters may move at once a step does what its budget allows, and the next
//         steps go on.
// Errors: none: why a request cannot wait, and how a wait ended, is a QuotaCode.
// Lives:  one thread only. Each waiter has a place for its outcome, which stays there until the
//         worker fetches it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quota/call_clock.hpp"
#include "quota/current_book.hpp"
#include "quota/obstacle.hpp"
#include "quota/queue_scan.hpp"
#include "quota/quota_store.hpp"
#include "quota/reservation_book.hpp"
#include "quota/spread_waiters.hpp"
#include "quota/subject_table.hpp"
#include "quota/wait_queues.hpp"
#include "quota/work_budget.hpp"

namespace sluice::quota {

// How soon a waiter is tried again for which there was no place for a reservation.
inline constexpr int64_t retry_place_ns = base::ns_per_s;

class QueueServer {
 public:
  QueueServer(const Options& options, CallClock& clock, WorkBudget& budget, CurrentBook& book,
              SubjectTable& subjects, ReservationBook& reservations, WaitQueues& queues,
              SpreadWaiters& spread, Statistics& statistics);

  // Queues a request that does not fit now: `queued`, or why it cannot wait.
  api::QuotaCode join(const Newcomer& newcomer, const Request& request, const Obstacle& obstacle,
                      api::QuotaAnswer& answer) noexcept;
  // Sets the obstacle of a request that would fit if others did not wait.
  void set_queue_ahead(Obstacle& obstacle, const LimitedSubjects& limited) const noexcept;
  // The bound that leaves no place for another waiter; `none`: there is one.
  api::QuotaCode why_no_waiter(const api::QuotaCall& call, const Request& request) const noexcept;
  // Take a waiter out of its queues, with an outcome, or without. False: other shards are being
  // asked whether it fits, and its outcome follows.
  bool withdraw(api::WaiterId index) noexcept;
  bool abandon(api::WaiterId index) noexcept;
  // The same with any outcome, without serving others.
  bool end_wait(api::WaiterId index, api::QuotaCode code) noexcept;
  // The part of a waiter that has left at its home.
  void leave(api::WaiterId part) noexcept;
  // The waiter is about to leave its queues, admitted: it has overtaken those ahead of it.
  void count_overtaken(api::WaiterId index) noexcept;
  // A try of a waiter over several shards is over (SpreadWaiters). Returns the reservation of one
  // that was admitted after its client had left; 0: none.
  uint64_t end_try(const api::QuotaBatch& batch) noexcept;

  // Serves marked queues until none is left, or the budget is spent; serving one may mark others.
  void serve_marked() noexcept {
    if (!subjects_.to_serve().empty()) serve_queues();
  }
  void serve(SubjectIndex index) noexcept;

  // Ends all waits, a slice at a time; no waiter is served until that is done.
  void begin_drain() noexcept { drain_at_ = 0; }
  void drain_some() noexcept;

  // After new rules or a reset of all subjects every queue has to be served, in the order of the
  // waiters' places. Requests that join later are decided by the new rules.
  void begin_marking_all() noexcept { mark_at_ = 0; }
  void mark_some() noexcept;

  // The wait limit has passed. The waiter is tried again: quota that was freed at its last moment
  // is in time.
  void begin_late_wait(api::WaiterId index) noexcept;
  // Ends the waits of those late waiters that were tried again. After each, serves the queues that
  // this helps.
  void end_late_waits() noexcept;

  bool has_work() const noexcept;

  // A subject of the waiter has no quota any more, and unknown subjects are denied.
  bool is_denied(const Waiter& waiter, const LimitedSubjects& limited) const noexcept;
  // Ends its wait if the quotas as they are now can never admit it. True: it has left its queues.
  bool end_if_ruled_out(api::WaiterId index) noexcept;

  std::span<api::Grant> grants() noexcept { return grants_; }
  void keep_grants(size_t count) noexcept { grants_.resize(count); }

  void check_invariants() const noexcept;

 private:
  static constexpr api::WaiterId not_draining = api::no_waiter;
  static constexpr api::WaiterId nothing_to_mark = api::no_waiter;

  void mark(api::WaiterId index) noexcept;
  void serve_queues() noexcept;
  void serve_queue(SubjectIndex index) noexcept;
  bool try_head(api::WaiterId index) noexcept;
  bool end_in_vain(api::WaiterId index, const LimitedSubjects& limited,
                   const Obstacle& obstacle) noexcept;
  void serve_overtakers(SubjectIndex index) noexcept;
  bool overtake(api::WaiterId index) noexcept;
  bool admit(api::WaiterId index, const LimitedSubjects& limited,
             const limiter::Shares& shares) noexcept;
  api::QuotaAnswer open(api::WaiterId index, const LimitedSubjects& limited) noexcept;
  api::QuotaAnswer remember(const Request& request, const LimitedSubjects& limited) noexcept;
  void finish(api::WaiterId index, const api::QuotaAnswer& outcome,
              const LimitedSubjects& limited) noexcept;
  void end_late_wait(api::WaiterId index) noexcept;
  static void lend(api::WaitAnswer* to, const api::QuotaAnswer& answer,
                   const api::QuotaBatch& batch) noexcept;
  void report(api::WaitAnswer& to, const api::QuotaAnswer& outcome, const limiter::Shares& shares,
              const LimitedSubjects& limited) noexcept;

  CallClock& clock_;
  WorkBudget& budget_;
  CurrentBook& book_;
  SubjectTable& subjects_;
  ReservationBook& reservations_;
  WaitQueues& queues_;
  SpreadWaiters& spread_;
  QueueScan scan_;
  Statistics& statistics_;
  Waiters late_waiters_;  // in the order in which their wait limits passed
  std::vector<api::Grant> grants_;
  api::WaiterId drain_at_ = not_draining;    // the waits of waiters from here on are to end
  api::WaiterId mark_at_ = nothing_to_mark;  // their queues are to be marked from here on
};

}  // namespace sluice::quota
