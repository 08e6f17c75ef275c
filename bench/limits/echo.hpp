// Measures how many small items a server can receive and answer over loopback when it decides
// nothing: rung R2 with items of 4 bytes, R3 with 276; at a rate, how long that takes.
// Shape:  an item begins with a number; its reply is that number, 4 bytes. The client sends items
//         in frames (a frame is nothing to the server), keeps a window of them in flight on each
//         connection or sends them at fixed times, and compares every reply with the expected
//         number.
#pragma once

#include "bench/limits/report.hpp"

namespace sluice::limits_bench {

struct Echo {
  uint32_t connections = 1;
  uint32_t item_bytes = 4;
  uint32_t batch = 1'024;  // items in a frame
  uint32_t window = 64;    // frames in flight on a connection
  double rate = 0;         // items a second of an open loop; 0: a closed one
};

// The most bytes of items in flight on a connection; run_echo() refuses options that need more.
inline constexpr uint64_t window_bytes_max = 64 * 1024 * 1024;

Report run_echo(const Run& run, const Echo& echo);

}  // namespace sluice::limits_bench
