// Measures how many bytes loopback carries: one connection, blocking calls, contents unread.
// Shape:  64 KiB a call on both sides. The bytes that the receiver got count: all that were sent.
#pragma once

#include "bench/limits/report.hpp"

namespace sluice::limits_bench {

Report run_raw(const Run& run);

}  // namespace sluice::limits_bench
