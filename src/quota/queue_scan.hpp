// Looks through the queue of a subject whose quota has changed, for waiters that the new quota can
// never admit: each of them holds up those behind it, wherever it stands.
// Flow:   SubjectTable::change_quota() marks the subject (to_scan) -> QueueServer serves its queue
//         -> look_through(), until it is done -> the head is tried.
// Shape:  one queue at a time, from its head on; where the budget is spent, later steps go on.
//         Those that join meanwhile are decided by the new quota. Another change begins anew.
// Lives:  one thread only. A queue that is looked through stays in the ServeList.
#pragma once

#include "quota/call_clock.hpp"
#include "quota/current_book.hpp"
#include "quota/subject_table.hpp"
#include "quota/waiter.hpp"
#include "quota/work_budget.hpp"

namespace sluice::quota {

class QueueScan {
 public:
  QueueScan(const CallClock& clock, WorkBudget& budget, const CurrentBook& book,
            SubjectTable& subjects) noexcept
      : clock_(clock), budget_(budget), book_(book), subjects_(subjects) {}

  // Calls `end(waiter's number)`, which may take that waiter out, for each that can never be
  // admitted. False: later steps go on, since the budget is spent, or another queue comes first.
  template <typename End>
  bool look_through(SubjectIndex index, End end) noexcept {
    if (!begin(index)) return !subjects_[index].to_scan;
    const Queue& queue = subjects_[index].queue;
    for (auto at = queue.upper_bound(seen_, ByArrival()); at != queue.end();) {
      if (!budget_.may_go_on()) return false;
      const Waiter& waiter = *at->waiter;
      ++at;  // the waiter may leave
      seen_ = waiter.arrival;
      if (rules_out(index, waiter)) end(waiter.index());
    }
    index_ = no_subject;
    return true;
  }

  // Whether the scan of this queue has begun, and is not done.
  bool is_under_way(SubjectIndex index) const noexcept { return index == index_; }

 private:
  static constexpr api::Arrival before_all{.ns = INT64_MIN};

  bool begin(SubjectIndex index) noexcept;
  bool rules_out(SubjectIndex index, const Waiter& waiter) noexcept;

  const CallClock& clock_;
  WorkBudget& budget_;
  const CurrentBook& book_;
  SubjectTable& subjects_;
  SubjectIndex index_ = no_subject;  // of the queue that is looked through ...
  api::Arrival seen_ = before_all;   // ... up to this place
};

}  // namespace sluice::quota
