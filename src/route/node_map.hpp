// Which target leads to the owner of a key, where several nodes share the keys by a static list.
// Shape:  targets 0 to shards_count - 1 are the shards of this node; behind them every other node
//         has as many as it may have lanes. The list gives a key to a node, by FNV-1a as gocc does;
//         a node that has said how many shards it has gives it to one of them.
// Bounds: targets_max, whatever the number of nodes; a node with more shards than it has targets
//         shares these among its shards.
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
#include "route/key_column.hpp"
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
  // Entries that one target of another node may have at a time.
  static constexpr uint32_t target_entries_max = 8'192;

  NodeMap() = default;  // this node is alone
  // `shards_count`: of this node.
  NodeMap(const Ownership& ownership, uint32_t shards_count)
      : ownership_(ownership), shards_count_(shards_count), shards_(ownership.nodes_count()) {
    if (is_alone()) return;
    node_targets_ = std::max(other_targets_max / (nodes_count() - 1), 1U);
    stood_in_.resize(targets_count());
  }

  bool is_alone() const noexcept { return !ownership_.has_peers(); }
  uint32_t nodes_count() const noexcept { return ownership_.nodes_count(); }
  uint32_t own_node() const noexcept { return ownership_.own_node(); }
  // Of other nodes.
  uint32_t targets_count() const noexcept { return (nodes_count() - 1) * node_targets_; }
  uint32_t node_targets() const noexcept { return node_targets_; }
  TargetId first_target(uint32_t node) const noexcept {
    const uint32_t place = node < own_node() ? node : node - 1;
    return static_cast<TargetId>(shards_count_ + place * node_targets_);
  }

  // What is known of another node; before, and after forget_shards(), all its keys lead to its
  // first target.
  void set_shards(uint32_t node, uint32_t shards_count, uint64_t routing_seed) noexcept {
    shards_[node] = {.count = shards_count, .seed = routing_seed};
  }
  void forget_shards(uint32_t node) noexcept { shards_[node] = {}; }
  // This node's shards decide what leads to a target whose node does not answer.
  void stand_in_for(TargetId target, bool stands_in) noexcept {
    stood_in_[target - shards_count_] = stands_in;
  }
  bool stands_in_for(TargetId target) const noexcept {
    return stood_in_[target - shards_count_] != 0;
  }

  bool owns(std::string_view key) const noexcept {
    return is_alone() || node_of(key) == own_node();
  }
  uint32_t node_of(std::string_view key) const noexcept { return ownership_.node_of_key(key); }
  // The owners of all keys of a request.
  void find_nodes(const KeyColumn& keys, std::span<uint16_t> nodes) const noexcept;
  // The target of a key of another node.
  TargetId target_of(uint32_t node, std::string_view key) const noexcept {
    const Shards& shards = shards_[node];
    uint32_t target = first_target(node);
    if (shards.count > 1) {
      const uint64_t hash = proto::routing_hash(key, shards.seed);
      target += proto::owner_shard(hash, shards.count) % node_targets_;
    }
    return static_cast<TargetId>(target);
  }

 private:
  struct Shards {
    uint32_t count = 0;  // 0: not known
    uint64_t seed = 0;
  };

  Ownership ownership_;
  uint32_t shards_count_ = 0;
  uint32_t node_targets_ = 0;
  std::vector<Shards> shards_;  // by node
  std::vector<char> stood_in_;  // by target behind the shards
};

inline void NodeMap::find_nodes(const KeyColumn& keys, std::span<uint16_t> nodes) const noexcept {
  constexpr size_t at_once = proto::texts_at_once;
  const char* key = keys.text.data();
  for (size_t first = 0; first < keys.sizes.size(); first += at_once) {
    const size_t count = std::min(at_once, keys.sizes.size() - first);
    std::array<std::string_view, at_once> texts{};
    for (size_t i = 0; i < count; ++i) {
      texts[i] = {key, keys.sizes[first + i]};
      key += keys.sizes[first + i];
    }
    for (size_t i = count; i < at_once; ++i) texts[i] = texts[0];  // not asked for
    const auto hashes = proto::fnv1a_32(texts);
    for (size_t i = 0; i < count; ++i) {
      nodes[first + i] = static_cast<uint16_t>(hashes[i] % nodes_count());
    }
  }
}

}  // namespace sluice::route
