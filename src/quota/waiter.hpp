// A request that waits in the queues of its subjects.
// Lives:  in the pool of WaitQueues, until it is served or leaves.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "api/entry.hpp"
#include "api/quota.hpp"
#include "base/timer_wheel.hpp"
#include "quota/owner_names.hpp"
#include "quota/queue_place.hpp"
#include "quota/request.hpp"
#include "quota/timer_tag.hpp"

namespace sluice::quota {

// A call that is to wait.
struct Newcomer {
  const api::QuotaCall& call;
  api::ShardId origin = 0;  // of its ticket
  api::Arrival arrival{};
};

struct Waiter
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  explicit Waiter(const Request& asked) noexcept : request(asked) {}

  base::Timer limit;  // the wait limit
  base::Timer wake;   // when it may fit: of a waiter that heads all its queues, or may overtake
  Request request;
  api::Arrival arrival;
  api::Ticket ticket = api::no_ticket;
  api::ShardId origin = 0;
  OwnerNames::Block owner = OwnerNames::none;
  api::WaitAnswer* answer = nullptr;  // lent by its session, if it shows more than the grant
  uint64_t limit_order = 0;           // when its wait limit passed; it is linked since then
  std::array<QueuePlace, limits::call_subjects_max> places{};  // by the subjects' in the request

  api::WaiterId index() const noexcept { return TimerTag::of(limit).index; }
};

inline bool ByArrival::operator()(const QueuePlace& one, const QueuePlace& other) const noexcept {
  return one.waiter->arrival < other.waiter->arrival;
}

using Waiters = boost::intrusive::list<Waiter, boost::intrusive::constant_time_size<false>>;

}  // namespace sluice::quota
