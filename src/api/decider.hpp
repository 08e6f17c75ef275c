// What a worker asks of whatever decides on its shard, whether that limits keys or quotas: the
// lives of its waiters, and the outcomes that become known later.
// Flow:   a call that ends a wait, or time that passes -> grants(), until the worker has delivered
//         them.
// Shape:  the seam between a worker and its shard: shard/ and quota/ implement it and add how they
//         decide; a test implements it to check what passes. Entries and quota calls cost one
//         virtual call a run or a batch. A waiter that leaves costs one, and so does a handle that
//         is interned, looked up or freed.
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

  // Takes a waiter out of its queue; a grant `withdrawn` follows. False when it waits no more.
  virtual bool withdraw(WaiterId waiter, Ticket ticket, base::Now now, ShardId origin) noexcept = 0;

  // Takes a waiter whose client is gone out of its queue, without a grant. False as above.
  virtual bool abandon(WaiterId waiter, Ticket ticket, base::Now now, ShardId origin) noexcept = 0;

  // Takes back what an approved waiter was granted, since no client received it: the permits, or
  // the reservation. False, and nothing happens, when that is too late.
  virtual bool refund(const Permit& permit, base::Now now) noexcept = 0;

  // Answers every waiter `draining`.
  virtual void drain(base::Now now) noexcept = 0;

  // Does what is due at `now`. Bounded work; call again while next_due_ns() has passed.
  virtual void run_due(base::Now now) noexcept = 0;
  // When run_due() has work again; base::never_ns: no time is known.
  virtual int64_t next_due_ns() const noexcept = 0;

  // Outcomes that nobody has fetched, oldest first; never more than there may be waiters.
  virtual std::span<Grant> grants() noexcept = 0;
  // Forgets all but the first `count`: a caller that cannot fetch all moves the others to the
  // front.
  virtual void keep_grants(size_t count) noexcept = 0;

  virtual uint32_t waiters_count() const noexcept = 0;

  // Address space reserved for all maxima together.
  virtual uint64_t reserved_bytes() const noexcept = 0;

  // Walks everything; aborts on a broken invariant. For tests.
  virtual void check_invariants(base::Now now) const noexcept = 0;
};

}  // namespace sluice::api
