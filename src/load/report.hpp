// What a run measured, for people and for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "load/counters.hpp"
#include "load/options.hpp"

namespace sluice::load {

struct Result {
  const Counters* counters = nullptr;
  double seconds = 0;
  double behind_s = 0;  // how late an open loop was at the end
  uint64_t distinct_keys = 0;
  uint32_t shards = 0;  // of the server
  double client_cpu_s = 0;
  std::optional<double> server_cpu_s;
  uint64_t unanswered_frames = 0;
  std::string server;  // where, and which version
};

// Denied decisions among the approved and denied ones.
double denied_share(const Counters& counters) noexcept;

// Whether an open loop sent what it had to, but for what is a matter of scheduling.
bool kept_up(const Result& result) noexcept;

// Several lines, the last one ended.
std::string summary(const Options& options, const Result& result);

// One line, not ended.
std::string json_line(const Options& options, const Result& result);

}  // namespace sluice::load
