// Runs a load, and reads the figures of both sides between its warm-up and its end.
// Errors: those of the load's senders; std::runtime_error when replies do not come in time.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "load/latency_histogram.hpp"
#include "load/loop.hpp"
#include "load/page_faults.hpp"

namespace sluice::limits_bench {

// The shares of a run, before it and after it.
inline constexpr double warm_up_share = 0.1;
inline constexpr double late_s_max = 5;  // for replies in flight at the end

// What the kernel counts for a server: a process, or a thread of this one.
struct ServerTask {
  clockid_t clock;
  std::string stat_file;
};

ServerTask this_thread();
ServerTask task_of_process(pid_t pid);  // throws std::invalid_argument when there is none

struct Measured {
  double seconds = 0;
  uint64_t frames = 0;  // whose last reply came
  load::LatencyHistogram latency;
  load::LatencyHistogram send_delay;
  sluicegate::Traffic traffic;
  double behind_s = 0;
  double client_cpu_s = 0;
  std::optional<double> server_cpu_s;
  std::optional<load::PageFaults> page_faults;
};

// `server`, when it is known, provides its figures.
Measured measure(load::Loop& loop, double seconds, const std::optional<ServerTask>& server);

// The fields of a line that all loads have. `rate` is that of the open loop, 0 for a closed one.
void add_fields(nlohmann::ordered_json& line, const Measured& measured, double rate);

// "  latency  ..." and, of an open loop that is late, a warning.
std::string latency_lines(const Measured& measured, double rate);

}  // namespace sluice::limits_bench
