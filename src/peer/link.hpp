// The way by which messages reach another node: frames of a Lane, or requests of HTTP/2.
// Flow:   PeerTarget -> send() -> the owner's answers -> PeerTarget::on_answers(). What
//         waits at the owner is answered `queued`; its outcome is one of Context::grants.
// Errors: a link that is lost calls PeerTarget::on_lost(), and nothing of it from then on.
// Lives:  one thread only.
#pragma once

#include "api/entry.hpp"
#include "peer/outgoing.hpp"

namespace sluice::peer {

class Link {
 public:
  virtual ~Link() = default;
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Whether another message may leave now; if not, entries gather. A message that is full is sent
  // all the same, and waits here.
  virtual bool takes_message() const noexcept = 0;
  virtual void send(Outgoing& outgoing) noexcept = 0;
  // The message is given up: its entries that were not written yet never leave. Returns how many.
  virtual uint32_t take_back(Outgoing& outgoing) noexcept = 0;

  // Whether one of the following may be called.
  virtual bool takes_notice() const noexcept = 0;
  // The client of this waiter has left, or withdraws it; its outcome still comes. If the waiter no
  // longer has this ticket, its outcome has come.
  virtual void withdraw(api::WaiterId waiter, api::Ticket ticket) noexcept = 0;
  // Nobody has received this grant.
  virtual void refund(const api::RefundClaim& claim) noexcept = 0;
};

}  // namespace sluice::peer
