// GET /top: what every core decides per second, and which keys are asked most, as JSON.
// Flow:   each core's HeavyKeys -> merge() -> the heaviest of all -> write_top().
// Shape:  docs/rest.md, "Who asks: GET /top". A key lives on one core, so that to merge is to sort.
//         ASCII only: what a key holds is escaped, so that no terminal is harmed.
// Units:  per second.
// Errors: a key's bytes that are no UTF-8 become U+FFFD.
// Lives:  off the request path: allocates (ADR 0004), within limits::reply_bytes_max.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/shard_statistics.hpp"
#include "shard/shard.hpp"

namespace sluice::server {

struct TopKey {
  std::string text;  // of which `rates.key` was a view
  uint32_t shard = 0;
  shard::HeavyKey rates;
};

// Keeps no more than `keys_max` of both, most asked first.
void merge(std::span<const shard::HeavyKey> of_shard, uint32_t shard, uint32_t keys_max,
           std::vector<TopKey>& keys);

std::string write_top(std::span<const ShardStatistics> shards, std::span<const TopKey> keys);

}  // namespace sluice::server
