// A Redis server under the load that `sluicegate bench` sends to ours: its peer in an open loop.
// Shape:  INCR of prepared keys, in pipelines; a pipeline is to it what a frame is to ours.
// Errors: std::system_error without a server; std::runtime_error when it answers with an error.
#pragma once

#include <optional>

#include "bench/limits/report.hpp"

namespace sluice::limits_bench {

struct Redis {
  uint16_t port = 6379;
  std::optional<int> server_pid;
  uint32_t connections = 4;
  uint32_t keys = 1'000'000;
  uint32_t batch = 64;  // commands in a pipeline
  uint32_t window = 16;
  double rate = 0;  // commands a second of an open loop; 0: a closed one
};

Report run_redis(const Run& run, const Redis& redis);

}  // namespace sluice::limits_bench
