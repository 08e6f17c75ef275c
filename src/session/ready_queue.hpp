// The sessions that can go on with what they hold: whoever was served least comes first.
// Flow:   push() -> pop() -> charge() with the work that was done for it.
// Shape:  each session counts the work done for it. After a pause it starts where the session that
//         was popped last started: a pause earns nothing. What a session asks for now counts as
//         done in the order, so a lone request passes backlogs.
// Units:  TurnWork's.
// Lives:  a session unlinks itself when it is destroyed or popped; one thread only.
// Source: Golestani, "A Self-Clocked Fair Queueing Scheme for Broadband Applications", 1994.
#pragma once

#include <algorithm>
#include <boost/intrusive/set.hpp>
#include <cstdint>

namespace sluice::session {

class Session;

struct ReadyTag;
using ReadyHook =
    boost::intrusive::set_base_hook<boost::intrusive::tag<ReadyTag>,
                                    boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

// Of one session.
class ReadyPlace : public ReadyHook {
 public:
  // While it is in the queue, its place in the order.
  uint64_t rank() const noexcept { return rank_; }

 private:
  friend class ReadyQueue;

  uint64_t served_ = 0;
  uint64_t rank_ = 0;
};

class ReadyQueue {
 public:
  ReadyQueue();
  ~ReadyQueue();

  bool empty() const noexcept { return sessions_.empty(); }

  // `wanted`: the work that it asks for now, as far as it is known.
  void push(Session& session, uint64_t wanted) noexcept;
  // The session that was served least; the queue is not empty.
  Session& pop() noexcept;
  // Whether it is in the queue, and would be popped now.
  bool is_next(const Session& session) const noexcept;

  void charge(ReadyPlace& place, uint64_t work) const noexcept {
    place.served_ = std::max(place.served_, popped_) + work;
  }

 private:
  struct ByRank {
    bool operator()(const ReadyPlace& one, const ReadyPlace& other) const noexcept {
      return one.rank() < other.rank();
    }
  };

  boost::intrusive::multiset<Session, boost::intrusive::base_hook<ReadyHook>,
                             boost::intrusive::compare<ByRank>,
                             boost::intrusive::constant_time_size<false>>
      sessions_;
  uint64_t popped_ = 0;  // what had been done for the session that was popped last
};

}  // namespace sluice::session
