// The entries and quota calls of one lane that wait in queues of its owner.
// Flow:   keep() when the owner answers `queued` -> end() with the outcome: a grant of the context;
//         or lose().
// Errors: an outcome that no owner can mean is `owner_unreachable`.
// Lives:  one per lane, one thread only. The waiters are the context's, which bounds them.
#pragma once

#include <span>

#include "api/entry.hpp"
#include "api/quota.hpp"
#include "peer/context.hpp"
#include "peer/remote_waiter.hpp"

namespace sluice::peer {

class LaneWaiters {
 public:
  explicit LaneWaiters(Context& context) noexcept : context_(context) {}
  // A server that is stopped while clients still wait does not lose its lanes first.
  ~LaneWaiters();
  LaneWaiters(const LaneWaiters&) = delete;
  LaneWaiters& operator=(const LaneWaiters&) = delete;

  bool has_any() const noexcept { return !waiters_.empty(); }

  // Null: it was not asked to wait.
  RemoteWaiter* keep(const RemotePlace& place, api::Ticket ticket, RemoteWaiter::Of of) noexcept;

  // The waiter's client has left, or withdraws. Null: it waits no longer.
  const RemotePlace* withdraw(api::WaiterId waiter, api::Ticket ticket) noexcept;

  // The waiter at this place has an outcome. False: nobody waits there.
  bool end_entry(const RemotePlace& place, api::Verdict verdict, const api::Detail& detail,
                 const api::RefundClaim& claim) noexcept;
  bool end_call(const RemotePlace& place, const api::QuotaAnswer& answer,
                std::span<const api::LimitReport> limits);

  // Their places in the queues are lost.
  void lose() noexcept;

 private:
  RemoteWaiter* find(const RemotePlace& place, RemoteWaiter::Of of) noexcept;
  void end(RemoteWaiter& waiter, const api::Grant& grant) noexcept;

  Context& context_;
  RemoteWaiters waiters_;
};

}  // namespace sluice::peer
