// The waiters of one key: first in, first out.
// Shape:  an intrusive list, so that a waiter leaves from the middle in constant time.
// Lives:  waiters belong to the store's pool; a queue is empty when it ends.
#pragma once

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "api/entry.hpp"
#include "base/timer_wheel.hpp"

namespace sluice::shard {

struct Waiter {
  Waiter(api::Ticket of, api::ShardId from, uint32_t cost_permits, uint32_t extra_index) noexcept
      : ticket(of), origin(from), cost(cost_permits), extra(extra_index) {}

  api::Ticket ticket;
  api::ShardId origin;  // the shard that gave the ticket
  uint32_t cost;
  uint32_t extra;                     // of the key it waits for
  api::WaiterId id = api::no_waiter;  // its own index in the pool
  base::Timer deadline;               // scheduled when it has a wait limit
  boost::intrusive::list_member_hook<> in_queue;
};

class WaiterQueue {
 public:
  bool empty() const noexcept { return waiters_.empty(); }
  uint32_t size() const noexcept { return static_cast<uint32_t>(waiters_.size()); }
  Waiter& head() noexcept { return waiters_.front(); }

  void join(Waiter& waiter) noexcept {
    waiters_.push_back(waiter);
    cost_max_ = std::max(cost_max_, waiter.cost);
  }

  void leave(Waiter& waiter) noexcept {
    waiters_.erase(waiters_.iterator_to(waiter));
    if (waiters_.empty()) cost_max_ = 0;
  }

  // Takes out each waiter with a cost above `limit`, in queue order, and then calls
  // `visit(waiter)`. Walks the queue only if it may have one so costly, or has had one since the
  // last walk.
  template <typename Visit>
  void expel_above(uint32_t limit, Visit visit) noexcept {
    if (cost_max_ <= limit) return;
    cost_max_ = 0;
    for (auto next = waiters_.begin(); next != waiters_.end();) {
      Waiter& waiter = *next++;
      if (waiter.cost <= limit) {
        cost_max_ = std::max(cost_max_, waiter.cost);
        continue;
      }
      waiters_.erase(waiters_.iterator_to(waiter));
      visit(waiter);
    }
  }

  template <typename Visit>
  void for_each(Visit visit) const noexcept {
    for (const Waiter& waiter : waiters_) visit(waiter);
  }
  // From the head on, until `visit(waiter)` is false.
  template <typename Visit>
  void for_each_until(Visit visit) const noexcept {
    std::ranges::all_of(waiters_, visit);
  }

 private:
  using Waiters = boost::intrusive::list<
      Waiter, boost::intrusive::member_hook<Waiter, boost::intrusive::list_member_hook<>,
                                            &Waiter::in_queue>>;
  Waiters waiters_;
  uint32_t cost_max_ = 0;  // no waiter costs more
};

}  // namespace sluice::shard
