// /metrics: every shard's counters as Prometheus text (format 0.0.4).
// Shape:  every series of one shard has the label `shard`; there are no sums over shards.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "server/shard_statistics.hpp"

namespace sluice::server {

// Upper bound of the text for so many shards.
constexpr size_t metrics_bytes_max(uint32_t shards) noexcept {
  return 8 * 1024 + size_t{shards} * 8 * 1024;
}

// Writes into `text`, which has the capacity already.
void write_metrics(std::span<const ShardStatistics> shards, const ProcessStatistics& process,
                   std::string& text) noexcept;

}  // namespace sluice::server
