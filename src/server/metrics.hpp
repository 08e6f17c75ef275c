// /metrics: every shard's counters as Prometheus text (format 0.0.4).
// Shape:  every series of one shard has the label `shard`; there are no sums over shards. Series of
//         another node have the label `node`, and are sums over shards.
// Bounds: limits::metrics_bytes_max(), for which every output buffer has room.
#pragma once

#include <span>
#include <string>

#include "server/shard_statistics.hpp"

namespace sluice::server {

struct AllStatistics {
  std::span<const ShardStatistics> shards;
  std::span<const NodeStatistics> nodes;  // other ones; counts of all shards together
  const ProcessStatistics& process;
};

// Writes into `text`, which has the capacity already.
void write_metrics(const AllStatistics& all, std::string& text) noexcept;

}  // namespace sluice::server
