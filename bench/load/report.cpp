#include "bench/load/report.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

namespace sluice::load {
namespace {

using sluicegate::Verdict;

constexpr double busy_share = 0.95;  // of a core: what limits the run

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

// Every verdict that came and is neither approved nor denied.
nlohmann::ordered_json other_verdicts(const VerdictTally& tally) {
  auto others = nlohmann::ordered_json::object();
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
      return shards + ", every key over a connection of the one that owns it";
    case Route::strangers:
      return shards + ", every key over a connection of another than the one that owns it";
    case Route::any:
      break;
  }
  return shards + ", keys over any connection";
}

std::string cpu_lines(const Result& result) {
  const double decisions = static_cast<double>(result.counters->verdicts.decisions());
  const auto line = [&](std::string_view who, double cpu_s) {
    return fmt::format("  {:<14}{:.2f} s, {:.0f} % of a core, {:.1f} ns a decision\n", who, cpu_s,
                       100 * cpu_s / result.seconds, decisions > 0 ? 1e9 * cpu_s / decisions : 0);
  };
  std::string lines = line("client CPU", result.client_cpu_s);
  if (!result.server_cpu_s) {
    return lines + "  server CPU    unknown (--server-pid tells where to look)\n";
  }
  lines += line("server CPU", *result.server_cpu_s);
  const double busy_s = busy_share * result.seconds;
  if (result.client_cpu_s >= busy_s && *result.server_cpu_s < busy_s * result.shards) {
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

}  // namespace

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
             "  {} connections x {} frames in flight x {} keys, {} of {} bytes, {:.1f} s\n"
             "  {}\n\n"
             "  decisions     {:.3f} M/s, {} in all\n"
             "  frames        {:.0f}/s, {:.1f} MB/s out, {:.1f} MB/s in\n"
             "  approved      {}\n"
             "  denied        {} ({:.2f} %)\n"
             "  distinct keys {}\n"
             "  latency       p50 {:.0f} us, p99 {:.0f} us, p99.9 {:.0f} us, max {:.0f} us\n"
             "                (of frames, from send to decoded answer, closed loop)\n",
             result.server, options.connections, options.window, options.batch,
             name(options.distribution), options.key_bytes, result.seconds,
             shards_line(options, result), per_s(tally.decisions()) / 1e6, tally.decisions(),
             per_s(tally.frames()), per_s(counters.bytes_out) / 1e6, per_s(counters.bytes_in) / 1e6,
             tally.count(Verdict::approved), tally.count(Verdict::denied),
             100 * denied_share(counters), result.distinct_keys, counters.latency.quantile_us(0.5),
             counters.latency.quantile_us(0.99), counters.latency.quantile_us(0.999),
             counters.latency.max_us()) +
         cpu_lines(result) + trouble_lines(options, result);
}

std::string json_line(const Options& options, const Result& result) {
  const Counters& counters = *result.counters;
  const VerdictTally& tally = counters.verdicts;
  const auto per_s = [&](uint64_t count) {
    return std::round(static_cast<double>(count) / result.seconds);
  };
  nlohmann::ordered_json line{{"decisions_per_s", per_s(tally.decisions())},
                              {"frames_per_s", per_s(tally.frames())},
                              {"decisions", tally.decisions()},
                              {"frames", tally.frames()},
                              {"approved", tally.count(Verdict::approved)},
                              {"denied", tally.count(Verdict::denied)},
                              {"denied_share", denied_share(counters)},
                              {"other_verdicts", other_verdicts(tally)},
                              {"errors", tally.refusals() + result.unanswered_frames},
                              {"distinct_keys", result.distinct_keys},
                              {"bytes_in", counters.bytes_in},
                              {"bytes_out", counters.bytes_out},
                              {"client_cpu_s", result.client_cpu_s},
                              {"server_cpu_s", nullptr},
                              {"latency_us",
                               {{"p50", counters.latency.quantile_us(0.5)},
                                {"p99", counters.latency.quantile_us(0.99)},
                                {"p999", counters.latency.quantile_us(0.999)},
                                {"max", counters.latency.max_us()}}},
                              {"seconds", result.seconds},
                              {"parameters",
                               {{"connections", options.connections},
                                {"batch", options.batch},
                                {"window", options.window},
                                {"keys", options.keys},
                                {"key_bytes", options.key_bytes},
                                {"distribution", name(options.distribution)},
                                {"denied_share", options.denied_share},
                                {"route", options.route == Route::owners},
                                {"misroute", options.route == Route::strangers},
                                {"shards", result.shards},
                                {"seconds", options.seconds},
                                {"server", result.server}}}};
  if (result.server_cpu_s) line["server_cpu_s"] = *result.server_cpu_s;
  return line.dump();
}

}  // namespace sluice::load
