// Waiters whose subjects several shards have: each shard has a part in its own queues, and the home
// has the waiter.
// Flow:   a part heads its queues and fits -> on_fits() -> its home, note_fits() -> once all parts
//         do, or one never will: next_try() -> the shards are asked as for a call that comes anew
//         (api::Pass) -> end_try(), or the waiter leaves with an outcome.
// Shape:  a report that a part fits is a hint; the try decides. A part reports again only after a
//         try in which it did not fit: a try that fails is not repeated before something changes.
//         Parts on other nodes may be lost, and so may their reports: a waiter that has some is
//         tried again after Options::node_renewal_ns, which shows whether they are still there.
// Errors: none.
// Lives:  one thread only. A waiter that is withdrawn while it is tried leaves after the try.
// Source: docs/adr/0017-waiting-over-several-shards.md, 0036-waiting-over-several-nodes.md.
#pragma once

#include <deque>

#include "api/quota.hpp"
#include "base/time.hpp"
#include "quota/call_clock.hpp"
#include "quota/quota_store.hpp"
#include "quota/wait_queues.hpp"

namespace sluice::quota {

class SpreadWaiters {
 public:
  SpreadWaiters(const Options& options, const CallClock& clock, WaitQueues& queues,
                std::deque<api::QuotaCall>& outgoing) noexcept
      : shard_(static_cast<api::ShardId>(options.shard)),
        renewal_ns_(options.node_renewal_ns),
        clock_(clock),
        queues_(queues),
        outgoing_(outgoing) {}

  // The waiter, or a part of one, fits as far as this shard can say; or it never will.
  void on_fits(Waiter& waiter) noexcept;
  void on_out(Waiter& waiter) noexcept;
  // At home: it has entered its queues. Other shards may have reported before.
  void on_joined(Waiter& waiter) noexcept;
  // At home: another shard has reported so.
  void note_fits(const api::QuotaCall& call) noexcept;
  void note_out(const api::QuotaCall& call) noexcept;
  // At home: its wait limit has passed. One more try decides.
  void on_late(Waiter& waiter) noexcept;
  // At home: it goes on waiting after a try in which these parts fit.
  void go_on(Waiter& waiter, uint8_t fit_bits) noexcept;

  bool has_tries() const noexcept { return !to_try_.empty() || !to_renew_.empty(); }
  // Fills the batch with the call of the next waiter to be tried.
  void next_try(api::QuotaBatch& batch) noexcept;

  // At home: the waiter leaves, and with it the parts on other shards and nodes.
  void leave_parts(const Waiter& waiter) noexcept;
  // At home: the parts on this node's shards have left with a charge.
  void forget_shards(Waiter& waiter) const noexcept;

  // Has those tried whose parts on other nodes were not asked about for long.
  void renew_due() noexcept;
  int64_t next_due_ns() const noexcept {
    return renewals_.empty() ? base::never_ns : renewals_.front().renew_at_ns;
  }

 private:
  void consider(Waiter& waiter) noexcept;
  void renew_later(Waiter& waiter) noexcept;
  void begin_try(Waiter& waiter) noexcept;
  Waiter& take_next() noexcept;

  const api::ShardId shard_;
  const int64_t renewal_ns_;
  const CallClock& clock_;
  WaitQueues& queues_;
  std::deque<api::QuotaCall>& outgoing_;
  Waiters to_try_;
  Waiters renewals_;  // that wait, and have parts on other nodes: in the order of their times
  Waiters to_renew_;  // likewise, whose time has come
  bool renews_next_ = false;
};

}  // namespace sluice::quota
