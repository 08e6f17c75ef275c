// A request that waits in the queues of its subjects.
// Lives:  in the pool of WaitQueues, until it is served or leaves.
#pragma once

#include <algorithm>
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

// A call that waiters may be ahead of.
struct Newcomer {
  const api::QuotaCall& call;
  api::ShardId origin = 0;  // of its ticket
  api::Arrival arrival{};
};

// One whose subjects several shards have waits at each of them: the first subject's shard, its
// home, has the waiter itself, the others have parts of it.
struct Waiter
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  enum class Stage : uint8_t {
    joining,  // it has a place, and is in no queue yet
    waiting,
    to_try,  // at home: all parts fit
    tried    // the shards are being asked
  };

  explicit Waiter(const Request& asked) noexcept : request(asked) { parts.fill(api::no_waiter); }

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

  Stage stage = Stage::joining;
  uint8_t subjects_here = 0;  // the subjects of this shard, with a quota or without
  bool is_part = false;
  // A part:
  bool has_reported = false;  // its home knows that it fits
  bool is_out = false;        // its home knows that it can never fit
  uint8_t first_place = 0;    // of its subjects
  api::ShardId home = 0;
  uint8_t home_shard = 0;  // of a home that is another node
  // At home, by the parts' first places:
  uint8_t part_bits = 0;      // its own, and those of other shards
  uint8_t fit_bits = 0;       // of the parts that fit, so far as is known
  bool has_part_out = false;  // one can never fit: a try gives the reason
  bool is_late = false;       // its wait limit has passed: the next try is the last
  bool is_abandoned = false;  // its client has left during the try that is under way
  uint8_t late_tries = 0;
  int64_t renew_at_ns = 0;  // it has parts on other nodes: when they are asked again
  api::QuotaCode leaves_as = api::QuotaCode::none;  // after the try that is under way
  // The parts' waiters at their shards; of a part, the first is the waiter at home.
  std::array<api::WaiterId, limits::call_subjects_max> parts{};

  api::WaiterId index() const noexcept { return TimerTag::of(limit).index; }
  bool has_parts() const noexcept { return (part_bits & (part_bits - 1)) != 0; }
  api::QuotaOp op() const noexcept {
    return request.is_used ? api::QuotaOp::consume : api::QuotaOp::reserve;
  }
  bool is_spread() const noexcept { return is_part || has_parts(); }
  bool has_node_parts() const noexcept {
    return std::any_of(request.named().begin(), request.named().end(), [](SubjectIndex subject) {
      return is_remote(subject) && api::is_node_stop(shard_of_subject(subject));
    });
  }
  // False: none of its subjects here has a quota.
  bool has_queue() const noexcept {
    return std::any_of(request.named().begin(), request.named().end(), is_here);
  }
};

inline bool ByArrival::operator()(const QueuePlace& one, const QueuePlace& other) const noexcept {
  return one.waiter->arrival < other.waiter->arrival;
}

inline bool ByArrival::operator()(const api::Arrival& one, const QueuePlace& other) const noexcept {
  return one < other.waiter->arrival;
}

using Waiters = boost::intrusive::list<Waiter, boost::intrusive::constant_time_size<false>>;

}  // namespace sluice::quota
