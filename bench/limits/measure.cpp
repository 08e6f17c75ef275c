#include "bench/limits/measure.hpp"

#include <pthread.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <stdexcept>

#include "load/clocks.hpp"
#include "load/report.hpp"

namespace sluice::limits_bench {
namespace {

void run_for(load::Loop& loop, double seconds) {
  const uint64_t end_ns = load::now_ns() + static_cast<uint64_t>(seconds * 1e9);
  loop.run([end_ns](uint64_t now_ns) { return now_ns < end_ns; });
}

double seconds_of(clockid_t clock) {
  return static_cast<double>(load::read_ns(clock)) * 1e-9;
}

// The counts of both sides at one moment.
struct Moment {
  double at_s;
  double client_cpu_s;
  std::optional<double> server_cpu_s;
  std::optional<load::PageFaults> page_faults;
};

Moment take_snapshot(const std::optional<ServerTask>& server) {
  Moment moment{.at_s = seconds_of(CLOCK_MONOTONIC),
                .client_cpu_s = seconds_of(CLOCK_THREAD_CPUTIME_ID),
                .server_cpu_s = std::nullopt,
                .page_faults = std::nullopt};
  if (!server) return moment;
  moment.server_cpu_s = seconds_of(server->clock);
  moment.page_faults = load::read_page_faults(server->stat_file);
  return moment;
}

}  // namespace

ServerTask this_thread() {
  ServerTask task{.clock = {},
                  .stat_file = "/proc/self/task/" + std::to_string(::gettid()) + "/stat"};
  ::pthread_getcpuclockid(::pthread_self(), &task.clock);
  return task;
}

ServerTask task_of_process(pid_t pid) {
  ServerTask task{.clock = {}, .stat_file = "/proc/" + std::to_string(pid) + "/stat"};
  if (::clock_getcpuclockid(pid, &task.clock) == 0) return task;
  throw std::invalid_argument("--server-pid: there is no process " + std::to_string(pid));
}

Measured measure(load::Loop& loop, double seconds, const std::optional<ServerTask>& server) {
  run_for(loop, warm_up_share * seconds);
  loop.restart_counters();
  const Moment begin = take_snapshot(server);
  run_for(loop, seconds);
  const Moment end = take_snapshot(server);
  Measured measured{.seconds = end.at_s - begin.at_s,
                    .frames = loop.counters().latency.count(),
                    .latency = loop.counters().latency,
                    .send_delay = loop.counters().send_delay,
                    .traffic = loop.counters().traffic,
                    .behind_s = loop.behind_s(),
                    .client_cpu_s = end.client_cpu_s - begin.client_cpu_s,
                    .server_cpu_s = std::nullopt,
                    .page_faults = std::nullopt};
  if (begin.server_cpu_s) measured.server_cpu_s = *end.server_cpu_s - *begin.server_cpu_s;
  if (begin.page_faults && end.page_faults) {
    measured.page_faults = *end.page_faults - *begin.page_faults;
  }
  if (loop.drain(late_s_max) > 0) throw std::runtime_error("replies did not come in time");
  return measured;
}

void add_fields(nlohmann::ordered_json& line, const Measured& measured, double rate) {
  line["bytes_out"] = measured.traffic.bytes_sent;
  line["bytes_in"] = measured.traffic.bytes_received;
  line["client_system_calls"] = measured.traffic.system_calls;
  line["latency_us"] = load::latency_fields(measured.latency);
  line["open_loop"] = nullptr;
  if (rate > 0) {
    line["open_loop"] = {{"rate", rate},
                         {"behind_s", measured.behind_s},
                         {"kept_up", load::kept_up(measured.behind_s, measured.seconds)},
                         {"send_delay_us", load::send_delay_fields(measured.send_delay)}};
  }
  line["seconds"] = measured.seconds;
  line["client_cpu_s"] = measured.client_cpu_s;
  if (measured.server_cpu_s) line["server_cpu_s"] = *measured.server_cpu_s;
  if (const auto& faults = measured.page_faults) {
    line["server_page_faults"] = load::page_fault_fields(*faults);
  }
}

std::string latency_lines(const Measured& measured, double rate) {
  const load::LatencyHistogram& latency = measured.latency;
  std::string lines = fmt::format(
      "  latency       p50 {:.0f} us, p99 {:.0f} us, p99.9 {:.0f} us, max {:.0f} us\n"
      "                (of frames, from {} to the last reply)\n",
      latency.quantile_us(0.5), latency.quantile_us(0.99), latency.quantile_us(0.999),
      latency.max_us(), rate > 0 ? "their scheduled time" : "their send");
  if (const auto& faults = measured.page_faults) lines += load::page_faults_line(*faults);
  if (rate > 0 && !load::kept_up(measured.behind_s, measured.seconds)) {
    lines += fmt::format(
        "  WARNING       {:.3f} s behind its schedule at the end: the latencies are those of an\n"
        "                overload\n",
        measured.behind_s);
  }
  return lines;
}

}  // namespace sluice::limits_bench
