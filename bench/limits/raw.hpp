// How many bytes loopback carries: one connection, blocking calls, nobody looks at what they hold.
// Shape:  64 KiB a call on both sides. What the receiver got counts, all that was sent.
#pragma once

#include "bench/limits/report.hpp"

namespace sluice::limits_bench {

Report run_raw(const Run& run);

}  // namespace sluice::limits_bench
