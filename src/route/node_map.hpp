// Which target leads to the owner of a key, where several nodes share the keys by a static list.
// Shape:  targets 0 to shards_count - 1 are the shards of this node; behind them every other node
//         has as many as it may have lanes. The list gives a key to a node, by FNV-1a as gocc does;
//         a node that has said how many shards it has gives it to one of them.
// Bounds: other_targets_max, whatever the number of nodes, and node_lanes_max over all shards of
//         this node; a node with more shards than it has targets shares these among its shards.
// Lives:  one per worker, one thread only.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "api/entry.hpp"
#include "proto/key_hash.hpp"
#include "proto/reservation_id.hpp"
#include "route/key_column.hpp"
#include "route/key_nodes.hpp"
#include "route/ownership.hpp"

namespace sluice::route {

// The number of a target: a shard of this node, or a lane to another node.
using TargetId = uint16_t;

// How far an entry may go: one that another node has forwarded is decided on this one.
enum class Reach : uint8_t { fleet, node };

inline Reach reach_of(const api::Entry& entry) noexcept {
  return (entry.flags & api::flag::stays_here) != 0 ? Reach::node : Reach::fleet;
}

class NodeMap {
 public:
  static constexpr uint32_t other_targets_max = 128;
  // Lanes of all shards of this node.
  static constexpr uint32_t node_lanes_max = 1'024;
  // Entries that one target of another node may have at a time.
  static constexpr uint32_t target_entries_max = 8'192;

  // Targets of each other node, of several: how many lanes each shard of this node may have to it.
  static constexpr uint32_t node_targets_of(uint32_t nodes_count, uint32_t shards_count) noexcept {
    const uint32_t targets_max = std::min(other_targets_max, node_lanes_max / shards_count);
    return std::max(targets_max / (nodes_count - 1), 1U);
  }
  // Which of the other node's shards a lane leads to. Where that has more shards than lanes lead to
  // it, each shard of this node takes others, so that all of them have some.
  static constexpr uint32_t shard_of_lane(uint32_t own_shard, uint32_t lane, uint32_t lanes_count,
                                          uint32_t shards_count) noexcept {
    return (own_shard * lanes_count + lane) % shards_count;
  }

  NodeMap() = default;  // this node is alone
  // `shards_count`: of this node.
  NodeMap(const Ownership& ownership, uint32_t shards_count)
      : ownership_(ownership), shards_count_(shards_count) {
    if (is_alone()) return;
    node_targets_ = node_targets_of(nodes_count(), shards_count);
    stood_in_.resize(targets_count());
    for (uint32_t node = 0; node < nodes_count(); ++node) {
      const bool is_own = node == own_node();
      ways_.push_back({.first = is_own ? TargetId{0} : first_target(node),
                       .targets = is_own ? shards_count : node_targets_});
      only_targets_.push_back(ways_[node].first);
    }
  }

  bool is_alone() const noexcept { return !ownership_.has_peers(); }
  uint32_t nodes_count() const noexcept { return ownership_.nodes_count(); }
  uint32_t own_node() const noexcept { return ownership_.own_node(); }
  // Whether the list has such a node beside this one: other nodes may have another list.
  bool has_other(uint32_t node) const noexcept {
    return !is_alone() && node < nodes_count() && node != own_node();
  }
  // Of other nodes.
  uint32_t targets_count() const noexcept { return (nodes_count() - 1) * node_targets_; }
  uint32_t node_targets() const noexcept { return node_targets_; }
  TargetId first_target(uint32_t node) const noexcept {
    const uint32_t place = node < own_node() ? node : node - 1;
    return static_cast<TargetId>(shards_count_ + place * node_targets_);
  }

  // What is known of a node; before, and after forget_shards(), all its keys lead to its first
  // target.
  void set_shards(uint32_t node, uint32_t shards_count, uint64_t routing_seed) noexcept {
    ways_[node].shards = shards_count;
    ways_[node].seed = routing_seed;
    note_only_target(node);
  }
  // Whether its keys lead to the same targets as after set_shards() with these.
  bool has_shards(uint32_t node, uint32_t shards_count, uint64_t routing_seed) const noexcept {
    const Way& known = ways_[node];
    if (known.shards <= 1 && shards_count <= 1) return true;
    return known.shards == shards_count && known.seed == routing_seed;
  }
  void forget_shards(uint32_t node) noexcept { set_shards(node, 0, 0); }
  // This node's shards decide what leads to a target whose node does not answer.
  void stand_in_for(TargetId target, bool stands_in) noexcept {
    if (stands_in_for(target) == stands_in) return;  // asked at each tick, for each lane
    stood_in_[target - shards_count_] = stands_in ? 1 : 0;
    note_only_target(node_of_target(target));
  }
  bool stands_in_for(TargetId target) const noexcept {
    return stood_in_[target - shards_count_] != 0;
  }

  bool owns(std::string_view key) const noexcept {
    return is_alone() || node_of(key) == own_node();
  }
  uint32_t node_of(std::string_view key) const noexcept { return ownership_.node_of_key(key); }
  TargetId target_of(std::string_view key) const noexcept { return follow(node_of(key), key); }
  // The targets of all keys of a request.
  void find_targets(const KeyColumn& keys, std::span<TargetId> targets) const noexcept;

  uint32_t node_of_subject(std::string_view name) const noexcept {
    return ownership_.node_of_subject(name);
  }
  // The node that has the reservation. One of a node without a list, or with another one, is asked
  // for where the call comes in.
  uint32_t node_of_reservation(uint64_t id) const noexcept {
    const uint32_t slot = proto::reservation_id::slot_of(id);
    const bool is_of_list = slot > 0 && slot <= nodes_count();
    return is_of_list ? slot - 1 : own_node();
  }
  // Of another node, whether it answers or not.
  TargetId target_of_subject(uint32_t node, std::string_view name) const noexcept {
    return follow(ways_[node], name);
  }
  // Likewise; the same number leads to the same target.
  TargetId target_of_number(uint32_t node, uint64_t number) const noexcept {
    const Way& way = ways_[node];
    if (way.shards <= 1) return way.first;
    return static_cast<TargetId>(way.first + number % std::min(way.shards, way.targets));
  }
  TargetId target_of_reservation(uint32_t node, uint64_t id) const noexcept {
    const Way& way = ways_[node];
    if (way.shards <= 1) return way.first;
    const uint32_t shard = proto::reservation_shard(id, way.shards) % way.targets;
    return static_cast<TargetId>(way.first + shard);
  }

 private:
  struct Way {
    TargetId first;
    uint32_t targets;
    uint32_t shards = 0;  // 0: not known
    uint64_t seed = 0;
  };

  static constexpr TargetId several = UINT16_MAX;

  bool is_stood_in(TargetId target) const noexcept {
    return target >= shards_count_ && stands_in_for(target);
  }
  uint32_t node_of_target(TargetId target) const noexcept {
    const uint32_t place = (target - shards_count_) / node_targets_;
    return place < own_node() ? place : place + 1;
  }
  void note_only_target(uint32_t node) noexcept {
    const Way& way = ways_[node];
    only_targets_[node] = way.shards <= 1 && !is_stood_in(way.first) ? way.first : several;
  }
  [[gnu::noinline]] TargetId follow_to_shard(uint32_t node, std::string_view key) const noexcept {
    return follow(node, key);
  }
  // The target of a key of this node.
  TargetId follow(uint32_t node, std::string_view key) const noexcept {
    const TargetId target = follow(ways_[node], key);
    return is_stood_in(target) ? follow(ways_[own_node()], key) : target;
  }
  static TargetId follow(const Way& way, std::string_view key) noexcept {
    if (way.shards <= 1) return way.first;
    uint32_t shard = proto::owner_shard(proto::routing_hash(key, way.seed), way.shards);
    if (shard >= way.targets) shard %= way.targets;
    return static_cast<TargetId>(way.first + shard);
  }

  Ownership ownership_;
  uint32_t shards_count_ = 0;
  uint32_t node_targets_ = 0;
  std::vector<Way> ways_;               // by node
  std::vector<TargetId> only_targets_;  // by node, of all its keys; `several`: follow its way
  std::vector<char> stood_in_;          // by target behind the shards
};

inline void NodeMap::find_targets(const KeyColumn& keys,
                                  std::span<TargetId> targets) const noexcept {
  find_nodes(keys, ownership_.nodes_count(), targets);
  const TargetId* const only_targets = only_targets_.data();
  const char* key = keys.text.data();
  for (size_t i = 0; i < keys.sizes.size(); ++i) {
    const TargetId only = only_targets[targets[i]];
    targets[i] = only != several ? only : follow_to_shard(targets[i], {key, keys.sizes[i]});
    key += keys.sizes[i];
  }
}

}  // namespace sluice::route
