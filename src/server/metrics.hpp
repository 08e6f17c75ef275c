// /metrics: one worker's counters as Prometheus text (format 0.0.4).
// Shape:  every series carries the label `shard`; there is no sum beside them.
// Lives:  read by the worker that owns the counters; writes into a string of reserved capacity.
#pragma once

#include <cstdint>
#include <string>

#include "io/io.hpp"
#include "shard/shard.hpp"

namespace sluice::server {

struct WorkerStatistics;

inline constexpr size_t metrics_bytes_max = 16 * 1024;

struct MetricsSource {
  uint32_t shard_id;
  const shard::Shard& shard;
  const WorkerStatistics& worker;
  const io::Io& io;
  uint32_t connections;
  uint64_t drained_entries;
};

void write_metrics(const MetricsSource& source, std::string& text) noexcept;

}  // namespace sluice::server
