// The queue of a subject: places of waiters, in the order of their arrival.
// Shape:  a balanced tree through the waiters themselves: a call of another shard may join when
//         later ones wait already, in O(log n).
// Lives:  a place is a part of its waiter; a queue is a part of its subject.
#pragma once

#include <boost/intrusive/set.hpp>

#include "api/quota.hpp"

namespace sluice::quota {

struct Waiter;

// Of a waiter in one of its queues.
struct QueuePlace
    : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>,
                                      boost::intrusive::link_mode<boost::intrusive::normal_link>> {
  Waiter* waiter = nullptr;
};

struct ByArrival {
  bool operator()(const QueuePlace& one, const QueuePlace& other) const noexcept;  // waiter.hpp
  bool operator()(const api::Arrival& one, const QueuePlace& other) const noexcept;
};

using Queue = boost::intrusive::set<QueuePlace, boost::intrusive::compare<ByArrival>,
                                    boost::intrusive::constant_time_size<false>>;
static_assert(sizeof(Queue) == 24);

}  // namespace sluice::quota
