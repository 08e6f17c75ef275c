#include "peer/peers.hpp"

#include <algorithm>

#include "base/splitmix.hpp"

namespace sluice::peer {

Peers::Peers(io::Io& io, route::Mailboxes& mailboxes, const FleetOptions& options,
             const Bounds& bounds, AddressBook& addresses, uint64_t seed)
    : context_(io, mailboxes, options, bounds),
      memory_(buffers_max(mailboxes.nodes())),
      questions_(context_, addresses),
      rules_(context_, addresses) {
  const route::NodeMap& nodes = mailboxes.nodes();
  context_.sender = base::splitmix64(seed + base::splitmix64_step) | 1;
  uint32_t place = 0;
  for (uint32_t node = 0; node < nodes.nodes_count(); ++node) {
    if (node == nodes.own_node()) continue;
    const Instance& instance = options.instances[node];
    peers_.push_back(std::make_unique<Peer>(
        context_, memory_, place, node, std::string(instance.authority()), addresses, seed + node));
    place += Peer::connections_max(nodes);
  }
}

void Peers::on_event(const io::Event& event) noexcept {
  SocketUser* const user = context_.user_of(event.socket.index);
  user->on_event(event);
  if (event.kind == io::EventKind::closed) context_.free(event.socket.index);
}

uint64_t Peers::lanes_from_others(uint32_t nodes_count, uint32_t shards_count) noexcept {
  if (nodes_count < 2) return 0;
  // Of each of their shards.
  const uint32_t lanes_max = route::NodeMap::node_targets_of(nodes_count, shards_count);
  return uint64_t{nodes_count - 1} * shards_count * std::min(shards_count, lanes_max);
}

void Peers::post(QuotaParcel& parcel) noexcept {
  peer_of(parcel.target).post(parcel);
}

Peer& Peers::peer_of(route::TargetId target) noexcept {
  const route::NodeMap& nodes = context_.mailboxes.nodes();
  return *peers_[(target - context_.mailboxes.shards_count()) / nodes.node_targets()];
}

void Peers::end_turn() noexcept {
  if (turn_ms_ >= next_tick_ms_) {
    next_tick_ms_ = turn_ms_ + tick_ms;
    for (const auto& peer : peers_) peer->on_tick();
    questions_.on_tick();
    if (context_.mailboxes.shard() == 0) rules_.on_tick();  // one worker does that for all
  }
  if (std::exchange(context_.has_changed, false)) {
    for (const auto& peer : peers_) peer->go_on();
    questions_.go_on();
    rules_.go_on();
  }
  context_.flush();
}

bool Peers::has_work() const noexcept {
  return context_.has_changed || questions_.has_answered() || !context_.grants.empty() ||
         !context_.notices_done.empty() || !context_.returned.empty() ||
         !context_.stranded.empty() || context_.has_new_state || !context_.parcels_done.empty() ||
         !context_.unclaimed.empty();
}

PeerCounts Peers::counts(size_t index) const noexcept {
  PeerCounts counts = peers_[index]->counts();
  counts.rules_differ = rules_.differs(peers_[index]->node()) ? 1 : 0;
  return counts;
}

bool Peers::are_known() const noexcept {
  return std::ranges::all_of(peers_, [](const auto& peer) { return peer->is_known(); });
}

bool Peers::report(TopologyBook& book) noexcept {
  if (!std::exchange(context_.has_new_state, false)) return false;
  bool has_changed = false;
  for (const auto& peer : peers_) has_changed |= book.set(peer->node(), peer->state());
  return has_changed;
}

void Peers::close() noexcept {
  for (const auto& peer : peers_) peer->close();
  questions_.close();
  rules_.close();
}

bool Peers::are_closed() const noexcept {
  return questions_.is_closed() && rules_.is_closed() &&
         std::ranges::all_of(peers_, [](const auto& peer) { return peer->is_closed(); });
}

}  // namespace sluice::peer
