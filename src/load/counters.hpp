// Counts since the last restart of the counters.
#pragma once

#include <cstdint>

#include "load/latency_histogram.hpp"
#include "load/verdict_tally.hpp"
#include "sluicegate/connection.hpp"

namespace sluice::load {

struct Counters {
  VerdictTally verdicts;
  LatencyHistogram latency;
  LatencyHistogram send_delay;  // of an open loop: from the scheduled time to the send
  sluicegate::Traffic traffic;  // of all connections
};

}  // namespace sluice::load
