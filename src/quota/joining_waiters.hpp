// Places for waiters of calls that may wait, while several shards decide whether they have to.
// Flow:   a shard is asked for its part -> take() -> the verdict -> end(): the part's waiter joins
//         its queues, or its place is free again.
// Shape:  the subjects of a part stay until then, and so does the client's id: a hold has it, if
//         there is one, else the waiter.
// Errors: where there is no place, the SpreadCall has the reason.
// Lives:  one thread only.
// Source: docs/adr/0017-waiting-over-several-shards.md.
#pragma once

#include "quota/queue_server.hpp"
#include "quota/reservation_book.hpp"
#include "quota/spread_part.hpp"
#include "quota/spread_waiters.hpp"
#include "quota/wait_queues.hpp"

namespace sluice::quota {

class JoiningWaiters {
 public:
  JoiningWaiters(ReservationBook& reservations, WaitQueues& queues, SpreadWaiters& waiters,
                 QueueServer& server) noexcept
      : reservations_(reservations), queues_(queues), waiters_(waiters), server_(server) {}

  // `origin`: of the call's ticket.
  void take(SpreadPart& part, api::ShardId origin) noexcept;
  void end(SpreadPart& part) noexcept;

 private:
  void set_parts(const SpreadPart& part, Waiter& waiter) noexcept;

  ReservationBook& reservations_;
  WaitQueues& queues_;
  SpreadWaiters& waiters_;
  QueueServer& server_;
};

}  // namespace sluice::quota
