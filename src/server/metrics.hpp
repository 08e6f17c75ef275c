// /metrics: every shard's counters as Prometheus text (format 0.0.4).
// Shape:  every series of one shard has the label `shard`; there are no sums over shards.
// Bounds: limits::metrics_bytes_max(), for which every output buffer has room.
#pragma once

#include <span>
#include <string>

#include "server/shard_statistics.hpp"

namespace sluice::server {

// Writes into `text`, which has the capacity already.
void write_metrics(std::span<const ShardStatistics> shards, const ProcessStatistics& process,
                   std::string& text) noexcept;

}  // namespace sluice::server
