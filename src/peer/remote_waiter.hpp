// An entry, or quota call, of a connection of this node that waits in a queue of another one.
// Lives:  from the answer `queued` to its outcome; its index in the pool is the api::WaiterId.
#pragma once

#include <boost/intrusive/set.hpp>
#include <compare>
#include <cstdint>

#include "api/entry.hpp"
#include "api/quota.hpp"

namespace sluice::peer {

// The owner's name for it.
struct RemotePlace {
  uint64_t frame_id = 0;
  uint32_t entry = 0;  // in the frame
  auto operator<=>(const RemotePlace&) const = default;
};

struct RemoteWaiter : boost::intrusive::set_base_hook<> {
  enum class Of : uint8_t { entry, quota_call };

  RemoteWaiter(const RemotePlace& at, api::Ticket with_ticket, Of of_what) noexcept
      : place(at), ticket(with_ticket), of(of_what) {}

  RemotePlace place;
  api::Ticket ticket;
  api::WaiterId index = api::no_waiter;
  Of of;
  bool is_withdrawn = false;
  api::WaitAnswer* answer = nullptr;  // quota_call: lent until the outcome; null: only a grant
};

struct PlaceOf {
  using type = RemotePlace;
  const RemotePlace& operator()(const RemoteWaiter& waiter) const noexcept { return waiter.place; }
};
using RemoteWaiters = boost::intrusive::set<RemoteWaiter, boost::intrusive::key_of_value<PlaceOf>,
                                            boost::intrusive::constant_time_size<false>>;

}  // namespace sluice::peer
