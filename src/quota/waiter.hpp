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
#include "quota/request.hpp"
#include "quota/timer_tag.hpp"

namespace sluice::quota {

// A waiter's place in one of its queues, named by the place of the subject in its request.
constexpr Link link_of(api::WaiterId waiter, uint32_t place) noexcept {
  return waiter * limits::call_subjects_max + place;
}
constexpr api::WaiterId waiter_of(Link link) noexcept {
  return link / limits::call_subjects_max;
}
constexpr uint32_t place_of(Link link) noexcept {
  return link % limits::call_subjects_max;
}

struct Waiter
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  explicit Waiter(const Request& asked) noexcept : request(asked) {}

  base::Timer limit;  // the wait limit
  base::Timer wake;   // when it may fit: of a waiter that heads all its queues, or may overtake
  Request request;
  api::Ticket ticket = api::no_ticket;
  api::ShardId origin = 0;
  OwnerNames::Block owner = OwnerNames::none;
  api::WaitAnswer* answer = nullptr;  // lent by its session, if it shows more than the grant
  uint64_t limit_order = 0;           // when its wait limit passed; it is linked since then
  std::array<Link, limits::call_subjects_max> before{};
  std::array<Link, limits::call_subjects_max> behind{};
};

using Waiters = boost::intrusive::list<Waiter, boost::intrusive::constant_time_size<false>>;

}  // namespace sluice::quota
