// The shard that a key or a reservation belongs to, by the last Welcome of a server. Part of
// Client.
// Threads: all threads read it, the connector writes it. A call that reads half of a change uses
//          the lane of a shard that does not own its key; the server decides it all the same.
#pragma once

#include <algorithm>
#include <atomic>
#include <string_view>

#include "proto/key_hash.hpp"
#include "proto/reservation_id.hpp"
#include "sluicegate/frames.hpp"

namespace sluicegate {

struct Routing {
  std::atomic<uint64_t> seed{0};
  std::atomic<uint32_t> shards{1};  // as many of them as have lanes
  std::atomic<uint32_t> key_bytes_max{0};
  std::atomic<uint64_t> instance_id{0};  // of the server's start; 0: not known

  void adopt(const Welcome& welcome, uint32_t lanes_max) noexcept {
    seed.store(welcome.routing_seed, std::memory_order_relaxed);
    key_bytes_max.store(welcome.key_bytes_max, std::memory_order_relaxed);
    instance_id.store(welcome.instance_id, std::memory_order_relaxed);
    const uint32_t known = welcome.routing_known ? std::min(welcome.shards, lanes_max) : 1;
    shards.store(std::max(known, 1U), std::memory_order_release);
  }

  uint32_t shard_of(std::string_view key) const noexcept {
    const uint32_t count = shards.load(std::memory_order_acquire);
    if (count == 1) return 0;
    const uint64_t hash = sluice::proto::routing_hash(key, seed.load(std::memory_order_relaxed));
    return sluice::proto::owner_shard(hash, count);
  }
  uint32_t shard_of(uint64_t reservation) const noexcept {
    return sluice::proto::reservation_shard(reservation, shards.load(std::memory_order_acquire));
  }
};

}  // namespace sluicegate
