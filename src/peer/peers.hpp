// All other nodes of the list, as one worker deals with them.
// Flow:   Worker::turn(): on_event() for their sockets -> deliver() -> end_turn().
// Shape:  a tick every tick_ms, beside what events cause.
// Lives:  one per worker of a server with --instance-urls, one thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "net/connection.hpp"
#include "peer/context.hpp"
#include "peer/node_questions.hpp"
#include "peer/peer.hpp"
#include "peer/rules_check.hpp"
#include "peer/topology_book.hpp"

namespace sluice::peer {

class Peers final : public ParcelSender {
 public:
  static constexpr int64_t tick_ms = 50;
  // Between two turns; more is a node that stood still.
  static constexpr int64_t turn_ms_max = 2 * tick_ms;
  // Connections to other nodes; each but those of questions has buffers of its own.
  static uint32_t connections_max(const route::NodeMap& nodes) noexcept {
    return nodes.is_alone()
               ? 0
               : buffers_max(nodes) + NodeQuestions::connections_max(nodes.nodes_count()) + 1;
  }

  // That other nodes open to this one, if all have as many shards.
  static uint64_t lanes_from_others(uint32_t nodes_count, uint32_t shards_count) noexcept;

  Peers(io::Io& io, route::Mailboxes& mailboxes, const FleetOptions& options, const Bounds& bounds,
        AddressBook& addresses, uint64_t seed);

  bool uses(io::SocketId socket) const noexcept {
    return context_.user_of(socket.index) != nullptr;
  }
  void on_event(const io::Event& event) noexcept;

  // Before the turn's events. Time in which this node stood still is no silence of others: what
  // they have sent meanwhile may not have been read yet.
  void begin_turn(int64_t now_ms) noexcept {
    context_.now_ms += std::min(now_ms - turn_ms_, turn_ms_max);
    turn_ms_ = now_ms;
  }
  // When end_turn() has something to do.
  int64_t due_ms() const noexcept { return next_tick_ms_; }

  // Quota calls for another node.
  void post(QuotaParcel& parcel) noexcept override;

  // Hands over what has returned: `handler.on_stranded(target, outgoing)` for messages that this
  // node stands in for, `handler.on_returned(target, message)`, then
  // `on_parcel(parcel)`, `on_notice_returned(notice)`, `on_grant(grant)`, and
  // `on_unclaimed(reservation)` of another node.
  template <typename Handler>
  void deliver(Handler& handler) noexcept;
  // Something that deliver() has not handed over yet.
  bool has_work() const noexcept;

  // Sends what was written in this turn, and does what is due.
  void end_turn() noexcept;

  // Each node is connected, or was tried.
  bool are_known() const noexcept;

  // Writes down what nodes are; true: something has changed.
  bool report(TopologyBook& book) noexcept;

  void close() noexcept;
  bool are_closed() const noexcept;

  const std::vector<std::unique_ptr<Peer>>& all() const noexcept { return peers_; }
  NodeQuestions& questions() noexcept { return questions_; }
  // This node's rules, from now on: policy::rules_digest().
  void set_rules(uint64_t digest) noexcept { rules_.set_own(digest); }
  // Of all()[index].
  PeerCounts counts(size_t index) const noexcept;

 private:
  Peer& peer_of(route::TargetId target) noexcept;

  static uint32_t buffers_max(const route::NodeMap& nodes) noexcept {
    return (nodes.nodes_count() - 1) * Peer::connections_max(nodes);
  }

  Context context_;
  net::ConnectionMemory memory_;
  std::vector<std::unique_ptr<Peer>> peers_;
  NodeQuestions questions_;
  RulesCheck rules_;
  int64_t turn_ms_ = 0;       // of the worker's clock
  int64_t next_tick_ms_ = 0;  // likewise
};

template <typename Handler>
void Peers::deliver(Handler& handler) noexcept {
  for (size_t i = 0; i < context_.stranded.size(); ++i) {
    const Context::Stranded stranded = context_.stranded[i];
    handler.on_stranded(*stranded.target, *stranded.outgoing);
  }
  context_.stranded.clear();
  for (size_t i = 0; i < context_.returned.size(); ++i) context_.returned[i]->deliver(handler);
  context_.returned.clear();
  // By index: what is delivered may end sessions, whose notices come later.
  for (size_t i = 0; i < context_.parcels_done.size(); ++i) {
    QuotaParcel& parcel = *context_.parcels_done[i];
    peer_of(parcel.target).count_back(parcel);
    handler.on_parcel(parcel);
  }
  context_.parcels_done.clear();
  for (size_t i = 0; i < context_.notices_done.size(); ++i) {
    handler.on_notice_returned(context_.notices_done[i]);
  }
  context_.notices_done.clear();
  for (size_t i = 0; i < context_.grants.size(); ++i) handler.on_grant(context_.grants[i]);
  context_.grants.clear();
  for (const uint64_t reservation : std::exchange(context_.unclaimed, {})) {
    handler.on_unclaimed(reservation);
  }
}

}  // namespace sluice::peer
