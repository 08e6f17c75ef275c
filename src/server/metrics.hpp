// /metrics: every core's counters as Prometheus text (format 0.0.4).
// Shape:  every series that is of one core carries the label `shard`; there is no sum beside them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "server/census.hpp"

namespace sluice::server {

// Upper bound of the text for so many cores.
constexpr size_t metrics_bytes_max(uint32_t cores) noexcept {
  return 8 * 1024 + size_t{cores} * 8 * 1024;
}

// Writes into `text`, whose capacity is reserved.
void write_metrics(std::span<const Census> cores, const ProcessCensus& process,
                   std::string& text) noexcept;

}  // namespace sluice::server
