// An instance of gocc: each entry of a message is a request of HTTP/2.
// Shape:  as many connections as its requests need, connections_max at most; the first stays. An
//         entry that may wait is `queued` at once, as far as this node knows; the answer to its
//         request is its outcome.
// Errors: what gocc cannot answer (gocc_request.hpp) is owner_unreachable. When the first
//         connection is lost, the link is.
// Bounds: entries beyond all streams wait here, as many as PeerTarget has messages. Callers that
//         wait at the gocc keep a stream each: waiting_max, so that there are others left.
// Lives:  until all its connections are closed; one thread only.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "peer/context.hpp"
#include "peer/gocc_connection.hpp"
#include "peer/link.hpp"
#include "peer/peer_target.hpp"

namespace sluice::peer {

class GoccLink final : public Link, public GoccConnection::Listener {
 public:
  static constexpr uint32_t connections_max = 4;
  static constexpr uint32_t messages_max = 4;
  static constexpr uint32_t waiting_max = 750;  // of 4 times 250 streams, which gocc allows

  // `first_place`: of connections_max buffers in `memory`.
  GoccLink(Context& context, net::ConnectionMemory& memory, uint32_t first_place, uint32_t node,
           std::string authority, PeerTarget& target);

  void connect(const io::PeerAddress& address) noexcept;
  bool is_open() const noexcept { return is_open_; }
  bool was_open() const noexcept { return was_open_; }
  bool is_closed() const noexcept;
  const std::string& why_lost() const noexcept { return why_lost_; }

  void on_tick() noexcept;
  // After a connection has come or gone.
  void go_on() noexcept;
  void lose(std::string_view why) noexcept;

  bool takes_message() const noexcept override {
    return unsent_.empty() && outgoings_.size() < messages_max;
  }
  void send(Outgoing& outgoing) noexcept override;
  uint32_t take_back(Outgoing& outgoing) noexcept override;
  bool takes_notice() const noexcept override { return true; }
  void withdraw(api::WaiterId waiter, api::Ticket ticket) noexcept override;
  // gocc gives nothing back.
  void refund(const api::RefundClaim&) noexcept override {}

 private:
  struct Unsent {
    Outgoing* outgoing;
    uint32_t place;    // in its message
    api::Entry entry;  // its key lies there
  };

  void send_requests() noexcept;
  GoccConnection* connection_for_request() noexcept;
  void open_connection() noexcept;
  void ask(GoccConnection& connection, const Unsent& unsent) noexcept;
  void on_answer(const Asked& asked, End end, const GoccAnswer& answer) noexcept override;
  void on_outcome(const Asked& asked, End end, const GoccAnswer& answer) noexcept;
  void answer(Outgoing& outgoing, uint32_t entry, api::Verdict verdict,
              const api::Detail& detail) noexcept;
  void fail(const Asked& asked) noexcept;
  void finish(Outgoing& outgoing) noexcept;

  Context& context_;
  net::ConnectionMemory& memory_;
  const uint32_t first_place_;
  const uint32_t node_;
  const std::string authority_;
  PeerTarget& target_;
  io::PeerAddress address_;
  std::array<std::unique_ptr<GoccConnection>, connections_max> connections_;
  std::vector<Outgoing*> outgoings_;  // without all answers
  std::deque<Unsent> unsent_;
  uint64_t waiters_count_ = 0;  // so far: each has a number
  uint32_t waiting_count_ = 0;  // now
  bool is_open_ = false;
  bool was_open_ = false;  // also after it was lost
  bool wants_connection_ = false;
  bool is_lost_ = false;
  std::string why_lost_;
};

}  // namespace sluice::peer
