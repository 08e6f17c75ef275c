#include "load/report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "load/key_sequence.hpp"
#include "text/json.hpp"

namespace sluice::load {
namespace {

using sluicegate::Verdict;

constexpr double busy_share = 0.95;  // of a core: that side limits the run
constexpr double behind_share_max = 0.01;
constexpr double behind_s_min = 0.002;

std::string_view name(Distribution distribution) {
  switch (distribution) {
    case Distribution::uniform:
      return "uniform";
    case Distribution::zipf:
      return "zipf";
    case Distribution::one:
      return "one";
  }
  return "";
}

// Counts of all verdicts except approved and denied.
text::Json other_verdicts(const VerdictTally& tally) {
  auto others = text::Json::object();
  for (size_t i = 0; i < tally.counts().size(); ++i) {
    const auto verdict = static_cast<Verdict>(i);
    if (verdict == Verdict::approved || verdict == Verdict::denied) continue;
    if (tally.counts()[i] == 0) continue;
    others[std::string{sluicegate::name(verdict)}] = tally.counts()[i];
  }
  return others;
}

std::string shards_line(const Options& options, const Result& result) {
  const std::string shards =
      fmt::format("{} shard{}", result.shards, result.shards == 1 ? "" : "s");
  switch (options.route) {
    case Route::owners:
      return shards + ", every key over a connection to the shard that owns it";
    case Route::other_shards:
      return shards + ", every key over a connection to another shard than its owner";
    case Route::any:
      break;
  }
  return shards + ", keys over any connection";
}

std::string rung_line(const Options& options) {
  const std::string what = options.client
                               ? "sent through the client library, each entry on its own (R5)"
                               : "frames replayed that were encoded before (R4)";
  return options.rate > 0 ? fmt::format("{}, {} decisions/s at fixed times", what, options.rate)
                          : what;
}

const char* latency_of(const Options& options) {
  return options.rate > 0 ? "from their scheduled time to the decoded answer, open loop"
                          : "from send to decoded answer, closed loop";
}

double per_decision(const Counters& counters, double amount) {
  const uint64_t decisions = counters.verdicts.decisions();
  return decisions > 0 ? amount / static_cast<double>(decisions) : 0;
}
double per_decision(const Counters& counters, uint64_t amount) {
  return per_decision(counters, static_cast<double>(amount));
}

std::string cpu_lines(const Options& options, const Result& result) {
  const double decisions = static_cast<double>(result.counters->verdicts.decisions());
  const auto line = [&](std::string_view side, double cpu_s) {
    return fmt::format("  {:<14}{:.2f} s, {:.0f} % of a core, {:.1f} ns a decision\n", side, cpu_s,
                       100 * cpu_s / result.seconds, decisions > 0 ? 1e9 * cpu_s / decisions : 0);
  };
  std::string lines = line("client CPU", result.client_cpu_s);
  if (!result.server_cpu_s) {
    return lines + "  server CPU    unknown (--server-pid names the process)\n";
  }
  lines += line("server CPU", *result.server_cpu_s);
  if (const auto& faults = result.server_page_faults) {
    lines += page_faults_line(*faults);
  }
  const double busy_s = busy_share * result.seconds;
  if (options.rate > 0) {
    lines += "  The client spins until the next scheduled time: its CPU time means nothing.\n";
  } else if (result.client_cpu_s >= busy_s && *result.server_cpu_s < busy_s * result.shards) {
    lines += "  The client was the bottleneck: the server can do more than this.\n";
  }
  return lines;
}

std::string trouble_lines(const Options& options, const Result& result) {
  const VerdictTally& tally = result.counters->verdicts;
  const auto others = other_verdicts(tally);
  std::string lines;
  for (const auto& [verdict, count] : others.items()) {
    lines += fmt::format("  {:<14}{}\n", verdict, count.get<uint64_t>());
  }
  if (tally.refusals() > 0) {
    lines += fmt::format("  ERRORS        {} frames refused: {}\n", tally.refusals(),
                         tally.refusal_text());
  }
  if (options.rate > 0 && !kept_up(result.behind_s, result.seconds)) {
    lines += fmt::format(
        "  WARNING       {} decisions/s asked for, {:.0f} met, {:.3f} s behind at the end: "
        "the\n"
        "                latencies are those of an overload\n",
        options.rate, static_cast<double>(tally.decisions()) / result.seconds, result.behind_s);
  }
  if (result.unanswered_frames > 0) {
    lines += fmt::format("  ERRORS        {} frames unanswered\n", result.unanswered_frames);
  }
  const double met = denied_share(*result.counters);
  if (options.denied_share > 0 && std::abs(met - options.denied_share) > 0.01) {
    lines += fmt::format(
        "  WARNING       {:.1f} % asked to be denied, {:.1f} % met: the server's windows must be\n"
        "                longer than the run (--window-millis), and requests may set limits\n",
        100 * options.denied_share, 100 * met);
  }
  return lines;
}

text::Json parameters(const Options& options, const Result& result) {
  const char* denied_by = denied_by_key(options) ? "key" : "cost";
  return {{"connections", options.connections},
          {"batch", options.batch},
          {"window", options.window},
          {"keys", options.keys},
          {"new_keys", options.new_keys},
          {"key_bytes", options.key_bytes},
          {"distribution", name(options.distribution)},
          {"denied_share", options.denied_share},
          {"denied_by", options.denied_share > 0 ? text::Json(denied_by) : nullptr},
          {"route", options.route == Route::owners},
          {"misroute", options.route == Route::other_shards},
          {"other_handle", options.other_handle},
          {"client", options.client},
          {"rate", options.rate},
          {"shards", result.shards},
          {"seconds", options.seconds},
          {"server", result.server}};
}

}  // namespace

bool kept_up(double behind_s, double seconds) noexcept {
  return behind_s <= std::max(behind_s_min, behind_share_max * seconds);
}

text::Json latency_fields(const LatencyHistogram& latency) {
  return {{"p50", latency.quantile_us(0.5)},
          {"p99", latency.quantile_us(0.99)},
          {"p999", latency.quantile_us(0.999)},
          {"max", latency.max_us()}};
}

text::Json send_delay_fields(const LatencyHistogram& send_delay) {
  return {{"p99", send_delay.quantile_us(0.99)},
          {"p999", send_delay.quantile_us(0.999)},
          {"max", send_delay.max_us()}};
}

text::Json page_fault_fields(const PageFaults& faults) {
  return {{"minor", faults.minor}, {"major", faults.major}};
}

std::string page_faults_line(const PageFaults& faults) {
  return fmt::format("  page faults   {} minor, {} major, of the server\n", faults.minor,
                     faults.major);
}

double denied_share(const Counters& counters) noexcept {
  const auto approved = static_cast<double>(counters.verdicts.count(Verdict::approved));
  const auto denied = static_cast<double>(counters.verdicts.count(Verdict::denied));
  return approved + denied > 0 ? denied / (approved + denied) : 0;
}

std::string summary(const Options& options, const Result& result) {
  const Counters& counters = *result.counters;
  const VerdictTally& tally = counters.verdicts;
  const auto per_s = [&](uint64_t count) { return static_cast<double>(count) / result.seconds; };
  return fmt::format(
             "{}\n"
             "  {} connections x {} frames in flight x {} {}, {} of {} bytes, {:.1f} s\n"
             "  {}\n"
             "  {}\n\n"
             "  decisions     {:.3f} M/s, {} in all\n"
             "  frames        {:.0f}/s, {:.1f} MB/s out, {:.1f} MB/s in; {:.2f} and {:.2f} bytes "
             "a\n"
             "                decision\n"
             "  approved      {}\n"
             "  denied        {} ({:.2f} %)\n"
             "  distinct keys {}\n"
             "  latency       p50 {:.0f} us, p99 {:.0f} us, p99.9 {:.0f} us, max {:.0f} us\n"
             "                (of frames, {})\n",
             result.server, options.connections, options.window, options.batch,
             options.handles ? "handles" : "keys", name(options.distribution), options.key_bytes,
             result.seconds, shards_line(options, result), rung_line(options),
             per_s(tally.decisions()) / 1e6, tally.decisions(), per_s(tally.frames()),
             per_s(counters.traffic.bytes_sent) / 1e6, per_s(counters.traffic.bytes_received) / 1e6,
             per_decision(counters, counters.traffic.bytes_sent),
             per_decision(counters, counters.traffic.bytes_received),
             tally.count(Verdict::approved), tally.count(Verdict::denied),
             100 * denied_share(counters), result.distinct_keys, counters.latency.quantile_us(0.5),
             counters.latency.quantile_us(0.99), counters.latency.quantile_us(0.999),
             counters.latency.max_us(), latency_of(options)) +
         cpu_lines(options, result) + trouble_lines(options, result);
}

std::string json_line(const Options& options, const Result& result) {
  const Counters& counters = *result.counters;
  const VerdictTally& tally = counters.verdicts;
  const auto per_s = [&](uint64_t count) {
    return std::round(static_cast<double>(count) / result.seconds);
  };
  const sluicegate::Traffic& traffic = counters.traffic;
  text::Json line{{"rung", options.client ? "R5" : "R4"},
                  {"handles", options.handles},
                  {"decisions_per_s", per_s(tally.decisions())},
                  {"frames_per_s", per_s(tally.frames())},
                  {"decisions", tally.decisions()},
                  {"frames", tally.frames()},
                  {"approved", tally.count(Verdict::approved)},
                  {"denied", tally.count(Verdict::denied)},
                  {"denied_share", denied_share(counters)},
                  {"other_verdicts", other_verdicts(tally)},
                  {"errors", tally.refusals() + result.unanswered_frames},
                  {"distinct_keys", result.distinct_keys},
                  {"outstanding", uint64_t{options.batch} * options.window * options.connections},
                  {"bytes_in", traffic.bytes_received},
                  {"bytes_out", traffic.bytes_sent},
                  {"bytes_in_per_decision", per_decision(counters, traffic.bytes_received)},
                  {"bytes_out_per_decision", per_decision(counters, traffic.bytes_sent)},
                  {"client_system_calls", traffic.system_calls},
                  {"client_cpu_s", result.client_cpu_s},
                  {"client_cpu_ns_per_decision", per_decision(counters, 1e9 * result.client_cpu_s)},
                  {"server_cpu_s", nullptr},
                  {"server_cpu_ns_per_decision", nullptr},
                  {"server_page_faults", nullptr},
                  {"latency_us", latency_fields(counters.latency)},
                  {"open_loop", nullptr},
                  {"seconds", result.seconds},
                  {"parameters", parameters(options, result)}};
  if (result.server_cpu_s) {
    line["server_cpu_s"] = *result.server_cpu_s;
    line["server_cpu_ns_per_decision"] = per_decision(counters, 1e9 * *result.server_cpu_s);
  }
  if (const auto& faults = result.server_page_faults) {
    line["server_page_faults"] = page_fault_fields(*faults);
  }
  if (options.rate > 0) {
    line["open_loop"] = {{"rate", options.rate},
                         {"rate_met", per_s(tally.decisions())},
                         {"behind_s", result.behind_s},
                         {"kept_up", kept_up(result.behind_s, result.seconds)},
                         {"send_delay_us", send_delay_fields(counters.send_delay)}};
  }
  return text::one_line(line);
}

}  // namespace sluice::load
