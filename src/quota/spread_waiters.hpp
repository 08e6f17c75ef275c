// Waiters whose subjects several shards have: each shard has a part in its own queues, and the home
// has the waiter.
// Flow:   a part heads its queues and fits -> on_fits() -> its home, note_fits() -> once all parts
//         do, or one never will: next_try() -> the shards are asked as for a call that comes anew
//         (api::Pass) -> end_try(), or the waiter leaves with an outcome.
// Shape:  a report that a part fits is a hint; the try decides. A part reports again only after a
//         try in which it did not fit: a try that fails is not repeated before something changes.
// Errors: none.
// Lives:  one thread only. A waiter that is withdrawn while it is tried leaves after the try.
// Source: docs/adr/0017-waiting-over-several-shards.md.
#pragma once

#include <deque>

#include "api/quota.hpp"
#include "quota/quota_store.hpp"
#include "quota/wait_queues.hpp"

namespace sluice::quota {

class SpreadWaiters {
 public:
  SpreadWaiters(const Options& options, WaitQueues& queues,
                std::deque<api::QuotaCall>& outgoing) noexcept
      : shard_(static_cast<api::ShardId>(options.shard)), queues_(queues), outgoing_(outgoing) {}

  // The waiter, or a part of one, fits as far as this shard can say; or it never will.
  void on_fits(Waiter& waiter) noexcept;
  void on_out(Waiter& waiter) noexcept;
  // At home: it has entered its queues. Other shards may have reported before.
  void on_joined(Waiter& waiter) noexcept { consider(waiter); }
  // At home: another shard has reported so.
  void note_fits(const api::QuotaCall& call) noexcept;
  void note_out(const api::QuotaCall& call) noexcept;
  // At home: its wait limit has passed. One more try decides.
  void on_late(Waiter& waiter) noexcept;
  // At home: it goes on waiting after a try in which these parts fit.
  void go_on(Waiter& waiter, uint8_t fit_bits) noexcept;

  bool has_tries() const noexcept { return !to_try_.empty(); }
  // Fills the batch with the call of the next waiter to be tried.
  void next_try(api::QuotaBatch& batch) noexcept;

  // At home: the waiter leaves, and with it the parts on other shards.
  void leave_parts(const Waiter& waiter) noexcept;

 private:
  void consider(Waiter& waiter) noexcept;

  const api::ShardId shard_;
  WaitQueues& queues_;
  std::deque<api::QuotaCall>& outgoing_;
  Waiters to_try_;
};

}  // namespace sluice::quota
