// The interface through which a worker uses the deciders of its shard, one for keys and one for
// quotas: it ends waits, refunds, and fetches outcomes that become known later.
// Flow:   a call that ends a wait, or time that passes -> grants(), until the worker has delivered
//         them.
// Shape:  the seam between a worker and its shard: shard/ and quota/ implement it and add how they
//         decide; a test implements it to check the calls. Entries and quota calls cost one virtual
//         call a run or a batch. A waiter that leaves costs one, and so does a handle that is
//         interned, looked up or freed.
// Units:  `now` in nanoseconds.
// Errors: none: every outcome is a verdict.
// Lives:  one thread only; reads no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "api/entry.hpp"
#include "base/time.hpp"

namespace sluice::api {

class Decider {
 public:
  Decider() = default;
  virtual ~Decider() = default;
  Decider(const Decider&) = delete;
  Decider& operator=(const Decider&) = delete;

  // Removes a waiter from its queue; a grant `withdrawn` follows. False when it no longer waits, or
  // other shards are being asked for it: then a grant has come, or is to come.
  virtual bool withdraw(WaiterId waiter, Ticket ticket, base::Now now, ShardId origin) noexcept = 0;

  // Removes a waiter from its queue without a grant, because its client is gone. False as above,
  // with a grant.
  virtual bool abandon(WaiterId waiter, Ticket ticket, base::Now now, ShardId origin) noexcept = 0;

  // Refunds a grant that no client received: releases the permits, or cancels the reservation.
  // False, without any change, when it is too late for that.
  virtual bool refund(const RefundClaim& claim, base::Now now) noexcept = 0;

  // Answers every waiter `draining`.
  virtual void drain(base::Now now) noexcept = 0;

  // Does the work that is due at `now`. Bounded; call again while next_due_ns() has passed.
  virtual void run_due(base::Now now) noexcept = 0;
  // When run_due() has work again; base::never_ns: no time is known.
  virtual int64_t next_due_ns() const noexcept = 0;

  // Outcomes that the worker has not fetched yet, oldest first; never more than the maximum of
  // waiters.
  virtual std::span<Grant> grants() noexcept = 0;
  // Forgets all but the first `count`: a caller that cannot fetch all moves the rest to the front.
  virtual void keep_grants(size_t count) noexcept = 0;

  virtual uint32_t waiters_count() const noexcept = 0;

  // Address space reserved for all maxima together.
  virtual uint64_t reserved_bytes() const noexcept = 0;

  // Walks everything; aborts on a broken invariant. For tests.
  virtual void check_invariants(base::Now now) const noexcept = 0;
};

}  // namespace sluice::api
