// Settles, cancels and extends reservations by id, and expires them by their timer or with their
// connection.
// Flow:   a call, or a due timer -> the charges are replaced or closed -> ReservationBook ends the
//         reservation -> the queues of its subjects are marked; the engine has them served.
// Errors: none: every outcome is a QuotaCode. A repeated end has the same answer.
// Lives:  one thread only. Reservations that end with a connection expire in slices, as the budget
//         allows.
#pragma once

#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <deque>
#include <vector>

#include "api/quota.hpp"
#include "quota/call_clock.hpp"
#include "quota/quota_store.hpp"
#include "quota/reservation_book.hpp"
#include "quota/subject_table.hpp"
#include "quota/wait_queues.hpp"
#include "quota/work_budget.hpp"

namespace sluice::quota {

class ReservationLifecycle {
 public:
  ReservationLifecycle(CallClock& clock, WorkBudget& budget, SubjectTable& subjects,
                       ReservationBook& reservations, WaitQueues& queues,
                       std::deque<api::QuotaCall>& outgoing, Statistics& statistics) noexcept
      : clock_(clock),
        budget_(budget),
        subjects_(subjects),
        reservations_(reservations),
        queues_(queues),
        outgoing_(outgoing),
        statistics_(statistics) {}

  // Whether the call ended it. Then queues may have to be served; take_parts() follows where other
  // shards have parts.
  enum class Ended : uint8_t { no, whole, with_parts };
  // `expected`: where the call's reservation most probably is.
  Ended settle(const api::QuotaCall& call, ReservationBook::Pool::Index expected,
               api::QuotaAnswer& answer) noexcept;
  Ended cancel(const api::QuotaCall& call, api::QuotaAnswer& answer) noexcept;
  // Of one with parts on other nodes, these come first: `with_parts`, nothing is changed yet, and
  // take_parts() follows; then finish_extend().
  Ended extend(const api::QuotaCall& call, api::QuotaAnswer& answer) noexcept;
  void finish_extend(const api::QuotaCall& call, api::QuotaAnswer& answer) noexcept;

  // The timer is due: an open reservation expires, with its parts on other shards; any other is
  // forgotten.
  void end_lifetime(Reservation& reservation) noexcept;

  // The parts on other shards of the reservation that settle() or cancel() has just ended: adds
  // them to the list, as of this call.
  void take_parts(uint32_t call, std::vector<api::PartEnd>& ends);
  // What they do with theirs: the answer has the reservation's amounts.
  void end_part(const api::QuotaCall& call, const api::QuotaAnswer& answer,
                uint32_t left_ms) noexcept;
  // The part's home, which is another node's or not, has expired. True: queues may have to be
  // served.
  bool expire_part(const api::QuotaCall& call, bool is_of_node) noexcept;
  // Of a reservation whose home is another node. Each shard of this one is asked: the answer is
  // that of all parts.
  void extend_part(const api::QuotaCall& call, api::QuotaAnswer& answer) noexcept;
  // As end_part(), by a call of that node. True: queues may have to be served.
  bool end_part(const api::QuotaCall& call) noexcept;

  // Expires what is bound to the connection. True: something is.
  bool end_connection(uint64_t connection) noexcept;
  // Expires a reservation that was made when the end of its connection had passed this shard. True:
  // it was open, and bound to one.
  bool end_if_bound(uint64_t reservation) noexcept;
  // Continues with the ends of connections.
  void expire_bound() noexcept;

 private:
  using PartShards = boost::container::static_vector<api::ShardId, limits::call_subjects_max>;

  Reservation* unended(Reservation* found, const api::QuotaCall& call, api::ReservationState wanted,
                       api::QuotaAnswer& answer) noexcept;
  Reservation* find_open(const api::QuotaCall& call, api::QuotaAnswer& answer) noexcept;
  void replace(Reservation& reservation, const api::Amounts& actual, uint64_t cached,
               api::QuotaAnswer& answer) noexcept;
  Ended end(Reservation& reservation, api::ReservationState state,
            api::QuotaAnswer& answer) noexcept;
  void answer_ended(api::ReservationState wanted, api::QuotaAnswer& answer) const noexcept;
  void expire(Reservation& reservation) noexcept;
  void close_lifetime(Reservation& reservation) noexcept;
  static PartShards shards_of_parts(const Reservation& reservation) noexcept;

  CallClock& clock_;
  WorkBudget& budget_;
  SubjectTable& subjects_;
  ReservationBook& reservations_;
  WaitQueues& queues_;
  std::deque<api::QuotaCall>& outgoing_;  // to other shards
  Statistics& statistics_;
  PartShards ended_parts_;  // of the reservation that ended last
  uint32_t left_ms_ = 0;    // for which it is remembered under a client's id
};

}  // namespace sluice::quota
