// Another node, as one worker deals with it: finds out what it is, connects, and connects again.
// Flow:   Probe -> a lane to each of its shards -> each lane serves its target.
// Shape:  targets are attached to the mailboxes when they are needed first, and stay.
// Errors: a lane that is lost is replaced after another probe, 50 ms to 1 s later: by then the node
//         may be another instance, or a gocc. After a probe that fails, or a link that never opens,
//         the next probe goes to the next address of the node's name.
// Lives:  one per worker and node, one thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "peer/address_book.hpp"
#include "peer/context.hpp"
#include "peer/gocc_link.hpp"
#include "peer/lane.hpp"
#include "peer/peer_counts.hpp"
#include "peer/peer_target.hpp"
#include "peer/probe.hpp"
#include "wire/topology.hpp"

namespace sluice::peer {

class Peer {
 public:
  // To one node: a probe, and links of either kind.
  static uint32_t connections_max(const route::NodeMap& nodes) noexcept {
    if (nodes.is_alone()) return 0;
    return 1 + std::max(nodes.node_targets(), GoccLink::connections_max);
  }

  // `host`: of the node's URL, with the port. Its buffers begin at `first_place` of `memory`.
  Peer(Context& context, net::ConnectionMemory& memory, uint32_t first_place, uint32_t node,
       std::string host, AddressBook& addresses, uint64_t seed);

  // From time to time: what is late, and what is to be tried again.
  void on_tick() noexcept;
  // After a connection has come or gone.
  void go_on() noexcept;

  // Quota calls for this node, to one of its shards.
  void post(QuotaParcel& parcel) noexcept;
  // Such a parcel is handed back.
  void count_back(const QuotaParcel& parcel) noexcept;

  // Ends all connections.
  void close() noexcept;
  bool is_closed() const noexcept;

  // It is connected, or was tried.
  bool is_known() const noexcept { return is_reachable_ || was_tried_; }
  bool is_reachable() const noexcept { return is_reachable_; }
  uint32_t node() const noexcept { return node_; }
  // As it was last connected.
  const wire::NodeState& state() const noexcept { return node_state_; }
  PeerCounts counts() const noexcept;
  const std::string& host() const noexcept { return host_; }
  // Why it is not connected, or last was not.
  const std::string& why_down() const noexcept { return why_down_; }

 private:
  static constexpr int64_t pause_ms_min = 50;
  static constexpr int64_t pause_ms_max = 1'000;
  static constexpr int64_t first_reached_ms_max = 10'000;

  void remove_closed_lanes() noexcept;
  bool is_connected() const noexcept;
  bool lacks_links() const noexcept;
  bool may_probe() const noexcept;
  void connect_gocc(const io::PeerAddress& address) noexcept;
  void probe() noexcept;
  void on_probed(const Probe& probe) noexcept;
  void on_failed(std::string_view why) noexcept;
  void note_failure() noexcept;
  void connect_lanes(const wire::NodeFacts& facts, io::PeerAddress address) noexcept;
  void serve_targets() noexcept;
  void follow_shards() noexcept;
  void note_node(const wire::NodeState& state) noexcept;
  void note_why_lost() noexcept;
  void note_state() noexcept;
  void warn_of_secret() noexcept;
  void warn_if_never_reached() noexcept;
  bool logs() const noexcept;
  size_t lane_for(route::TargetId target) const noexcept;
  api::NodeFailure failure() const noexcept;
  route::TargetId target_id(uint32_t lane) const noexcept;
  PeerTarget& target(uint32_t lane);

  Context& context_;
  net::ConnectionMemory& memory_;
  const uint32_t first_place_;
  const uint32_t node_;
  const std::string host_;
  AddressBook& addresses_;
  std::minstd_rand random_;
  PeerCounts counts_;
  wire::NodeState node_state_;
  std::optional<wire::NodeFacts> facts_;  // of the node that the lanes lead to
  std::unique_ptr<Probe> probe_;
  std::unique_ptr<GoccLink> gocc_;                    // instead of lanes, if it is a gocc
  std::vector<std::unique_ptr<Lane>> lanes_;          // to shards of that node
  std::vector<std::unique_ptr<PeerTarget>> targets_;  // likewise
  io::PeerAddress tried_;                             // by the last probe
  int64_t last_probe_ms_ = INT64_MIN / 2;
  int64_t pause_ms_ = pause_ms_min;
  uint64_t failed_entries_ = 0;  // at the last probe
  bool has_own_calls_ = false;   // which it has not answered since then
  std::string why_down_ = "it has not answered yet";
  std::optional<int64_t> awaited_since_ms_;  // while it has not been there yet, nor been warned of
  bool is_first_probe_ = true;
  bool was_tried_ = false;
  bool is_reachable_ = false;
  bool is_warned_of_secret_ = false;
  bool is_closing_ = false;
};

}  // namespace sluice::peer
