// The results of a run, for people and for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "load/counters.hpp"
#include "load/latency_histogram.hpp"
#include "load/options.hpp"
#include "load/page_faults.hpp"
#include "text/json.hpp"

namespace sluice::load {

struct Result {
  const Counters* counters = nullptr;
  double seconds = 0;
  double behind_s = 0;  // how far an open loop was behind its schedule at the end
  uint64_t distinct_keys = 0;
  uint32_t shards = 0;  // of the server
  double client_cpu_s = 0;
  std::optional<double> server_cpu_s;
  std::optional<PageFaults> server_page_faults;
  uint64_t unanswered_frames = 0;
  std::string server;  // address and version
};

// The share of denied decisions among the approved and denied ones.
double denied_share(const Counters& counters) noexcept;

// Whether an open loop kept its schedule, apart from small delays of the scheduler.
bool kept_up(double behind_s, double seconds) noexcept;

// What lines of JSON have of them.
text::Json latency_fields(const LatencyHistogram& latency);
text::Json send_delay_fields(const LatencyHistogram& send_delay);
text::Json page_fault_fields(const PageFaults& faults);
// A line of a summary.
std::string page_faults_line(const PageFaults& faults);

// Several lines; the last ends with a newline.
std::string summary(const Options& options, const Result& result);

// One line without a newline.
std::string json_line(const Options& options, const Result& result);

}  // namespace sluice::load
