// The queues of requests that wait to reserve, one for each subject; and which may overtake which.
// Flow:   join(), or take() and then enter() -> the head of all its queues, or one that may
//         overtake, is served -> leave().
// Shape:  a request waits in the queue of every subject that it names. All queues are in the order
//         of arrival, so there is always a waiter that heads all its queues.
// Units:  nanoseconds and milliseconds, monotonic.
// Errors: none; join() and take() need room in the pool.
// Lives:  one thread only. A subject with waiters is not forgotten.
#pragma once

#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/object_pool.hpp"
#include "base/timer_wheel.hpp"
#include "quota/call_clock.hpp"
#include "quota/client_ids.hpp"
#include "quota/limited_subjects.hpp"
#include "quota/quota_store.hpp"
#include "quota/subject_table.hpp"
#include "quota/waiter.hpp"

namespace sluice::quota {

class WaitQueues {
 public:
  using Pool = base::ObjectPool<Waiter>;
  using SubjectList = boost::container::static_vector<SubjectIndex, limits::call_subjects_max>;

  WaitQueues(const Options& options, const CallClock& clock, SubjectTable& subjects,
             base::TimerWheel& wheel, OwnerNames& owners, ClientIds& client_ids);

  // Adds a waiter to its queues, with the ticket, owner and wait limit of the call.
  api::WaiterId join(const Request& request, const Newcomer& newcomer) noexcept;
  // The same in two steps. Until the second it has a place, and is in no queue.
  api::WaiterId take(const Request& request, const Newcomer& newcomer) noexcept;
  void enter(api::WaiterId index, uint32_t wait_ms_max) noexcept;
  // Whether one with this arrival is in a queue of the request already: no other may enter it.
  bool have_one_of(const api::Arrival& arrival, const Request& request) const noexcept;
  // Takes a waiter out of all its queues; marks those where another one comes nearer to the head.
  void leave(api::WaiterId index) noexcept;
  // Takes the request, for the reservation that it becomes: the client's id is no longer the
  // waiter's.
  Request take_request(api::WaiterId index) noexcept;
  // The id is the waiter's again.
  void give_id(api::WaiterId index, const NameHash& id, uint64_t request_hash) noexcept;
  // Sets the timer that marks its queues, for that time or earlier.
  void wake_at(api::WaiterId index, int64_t fits_at_ns) noexcept;

  // Nearly always nobody waits: then nothing else of this class needs to be asked.
  bool have_waiters() const noexcept { return pool_.used() > 0; }
  // Whether a newcomer has to wait behind others, who have arrived before it. Marks queues that
  // have to be served to know.
  bool must_wait(const LimitedSubjects& limited, const api::Arrival& arrival) noexcept {
    return have_waiters() && must_queue_behind(limited, arrival);
  }
  // Whether a subject with waiters has holds: its queue may move when these are dropped.
  bool wait_for_holds(const LimitedSubjects& limited) const noexcept {
    return have_waiters() && have_waiters_beside_holds(limited);
  }
  // Whether the queues ahead of a newcomer allow overtaking, once those that are marked were
  // served.
  bool allow_overtaking(const LimitedSubjects& limited) const noexcept;
  // The limited subjects' call was admitted ahead of those that wait.
  void count_overtaking(const LimitedSubjects& limited, const api::Arrival& arrival) noexcept;

  // Its place in the subject's queue: 1 is the head, and limits::position_max stands for that or
  // later. 0: it is not in that queue.
  uint32_t position(api::WaiterId index, SubjectIndex subject) const noexcept;

  bool heads_all(api::WaiterId index) const noexcept;
  // Whether every queue that it does not head allows overtaking.
  bool may_overtake(api::WaiterId index) noexcept;
  bool allows_overtaking(const Subject& subject) const noexcept;
  // The subjects that have others ahead of it in their queues.
  SubjectList queues_not_headed(api::WaiterId index) const noexcept;
  // Whether one of its queues is to be served, and was not since then.
  bool is_to_be_tried(const Waiter& waiter, uint64_t since_order = UINT64_MAX) const noexcept;

  // Marks the queues of these subjects to be served: something may help their waiters.
  void mark(std::span<const SubjectIndex> subjects) noexcept {
    if (have_waiters()) mark_waited_for(subjects);
  }

  bool is_waiting(api::WaiterId index, api::Ticket ticket, api::ShardId origin) const noexcept;
  // No two have the same arrival: a part may have left, and another waiter may have its place.
  bool has_arrived_as(api::WaiterId index, const api::Arrival& arrival) const noexcept {
    return pool_.holds(index) && pool_[index].arrival == arrival;
  }
  std::string_view owner_of(api::WaiterId index) const noexcept {
    return owners_.at(pool_[index].owner);
  }
  const Pool& pool() const noexcept { return pool_; }
  // How many requests wait, parts of those of other shards left out.
  uint32_t waiting_count() const noexcept { return waiting_count_; }
  Waiter& operator[](api::WaiterId index) noexcept { return pool_[index]; }
  const Waiter& operator[](api::WaiterId index) const noexcept { return pool_[index]; }

  uint64_t reserved_bytes() const noexcept { return pool_.reserved_bytes(); }
  void check_invariants() const noexcept;

 private:
  void mark_waited_for(std::span<const SubjectIndex> subjects) noexcept;
  bool have_waiters_beside_holds(const LimitedSubjects& limited) const noexcept;
  bool must_queue_behind(const LimitedSubjects& limited, const api::Arrival& arrival) noexcept;
  bool may_be_overtaken(const Subject& subject) const noexcept;
  void enter(Waiter& waiter, uint8_t place) noexcept;
  void take_out(Waiter& waiter, uint8_t place) noexcept;

  const CallClock& clock_;
  SubjectTable& subjects_;
  base::TimerWheel& wheel_;
  OwnerNames& owners_;
  ClientIds& client_ids_;
  Pool pool_;
  uint32_t waiting_count_ = 0;
};

}  // namespace sluice::quota
