// GET /top: what every shard decides per second, and the busiest keys, as JSON.
// Flow:   each shard's HeavyKeys -> merge() -> the busiest of all -> write_top().
// Shape:  docs/rest.md, "Busiest keys: GET /top". A key lives on one shard, so to merge is to sort.
//         ASCII only: control characters of keys are escaped, so that no terminal is harmed.
// Units:  per second.
// Errors: a key's bytes that are no UTF-8 become U+FFFD.
// Lives:  off the request path: allocates (ADR 0004), within limits::reply_bytes_max.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/shard_statistics.hpp"
#include "shard/key_shard.hpp"

namespace sluice::server {

struct TopKey {
  std::string text;  // a copy of the key that `rates.key` viewed
  uint32_t shard = 0;
  shard::HeavyKey rates;
};

// Keeps at most `keys_max` of both, the busiest first.
void merge(std::span<const shard::HeavyKey> of_shard, uint32_t shard, uint32_t keys_max,
           std::vector<TopKey>& keys);

std::string write_top(std::span<const ShardStatistics> shards, std::span<const TopKey> keys);

}  // namespace sluice::server
