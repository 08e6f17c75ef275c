// Which lane leads to the owner of a key, a subject or a reservation, where several nodes share
// them. Part of Client.
// Flow:   key or subject -> place of its node in the servers' list (FNV-1a) -> shard of that node
//         -> lane. The place of a reservation's node is in its id.
// Shape:  a node for each place of the list; one that the client has not reached has no lanes.
// Bounds: nodes_max; the keys and subjects of nodes beyond go to another node, which forwards them.
// Lives:  nodes stay when the list becomes shorter, so that no reader loses them.
// Threads: as for Routing: all threads read, the connector writes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "proto/node_hash.hpp"
#include "proto/reservation_id.hpp"
#include "routing.hpp"

namespace sluicegate {

struct Node {
  static constexpr uint32_t shards_max = sluice::proto::routed_shards_max;
  static constexpr uint16_t no_lane = UINT16_MAX;

  Node() {
    for (auto& lane : lanes) lane.store(no_lane, std::memory_order_relaxed);
  }

  uint32_t lane(uint32_t shard) const noexcept {
    return lanes[shard].load(std::memory_order_acquire);
  }
  template <typename NameOrReservation>
  uint32_t lane_of(NameOrReservation wanted) const noexcept {
    return lane(routing.shard_of(wanted));
  }

  Routing routing;
  std::atomic<bool> is_out_of_reach{false};  // by the last attempts; false before the first one
  std::array<std::atomic<uint16_t>, shards_max> lanes;  // by shard; no_lane: none yet
};

class NodeTable {
 public:
  static constexpr uint32_t nodes_max = 1'024;

  // 0: the client has one server, or has not learned yet which nodes there are.
  uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  Node& operator[](uint32_t place) noexcept { return *nodes_[place]; }
  Node& owner(std::string_view key, uint32_t count) noexcept {
    return *nodes_[sluice::proto::key_node(key, count)];
  }
  // The place of a subject's owner. Once there are nodes.
  uint32_t quota_place(std::string_view subject) const noexcept {
    return sluice::proto::subject_node(subject, count());
  }
  // Whether it is certain which node has the reservation.
  bool has_place_of(uint64_t reservation) const noexcept {
    const uint32_t slot = sluice::proto::reservation_id::slot_of(reservation);
    return slot == sluice::proto::reservation_id::no_slot ? count() <= 1 : slot <= count();
  }
  // Of the node that has a reservation; home, if the id names no node of the list.
  uint32_t quota_place(uint64_t reservation) const noexcept {
    const uint32_t slot = sluice::proto::reservation_id::slot_of(reservation);
    const bool is_of_list = slot != sluice::proto::reservation_id::no_slot && slot <= count();
    return is_of_list ? slot - 1 : home();
  }
  // Is asked for whatever has no owner.
  uint32_t home() const noexcept { return home_.load(std::memory_order_acquire); }

  // By the connector.
  void resize(uint32_t count) {
    for (uint32_t place = 0; place < count; ++place) {
      if (nodes_[place] == nullptr) nodes_[place] = std::make_unique<Node>();
    }
    count_.store(count, std::memory_order_release);
  }
  void set_home(uint32_t place) noexcept { home_.store(place, std::memory_order_release); }

 private:
  std::array<std::unique_ptr<Node>, nodes_max> nodes_;
  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> home_{0};
};

}  // namespace sluicegate
