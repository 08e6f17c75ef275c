#include "bench/load/run.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/load/address.hpp"
#include "bench/load/clocks.hpp"
#include "bench/load/frame_set.hpp"
#include "bench/load/loop.hpp"
#include "bench/load/own_server.hpp"
#include "bench/load/report.hpp"

namespace sluice::load {
namespace {

constexpr size_t frames_min = 64;
constexpr double drain_seconds_max = 5;

// Windows that outlast the run keep what was denied denied. Few keys would use up their permits in
// such a window; with them so many questions fall into a short one that its first hardly counts.
constexpr uint32_t few_keys = 100;
constexpr const char* long_window_ms = "3600000";
constexpr const char* short_window_ms = "1000";

std::unique_ptr<OwnServer> start_server(const Options& options) {
  const bool few = options.keys <= few_keys || options.distribution == Distribution::one;
  std::vector<std::string> arguments{
      "--max-requests=" + std::to_string(key_permits),
      std::string{"--window-millis="} + (few ? short_window_ms : long_window_ms),
      "--max-keys=" + std::to_string(std::max<uint64_t>(options.keys + options.keys / 5, 10'000)),
      "--shards=" + std::to_string(options.shards)};
  // Whether a shard spins shall not depend on how many CPUs it was given.
  arguments.emplace_back("--spin-us=0");
  if (!options.io.empty()) arguments.push_back("--io=" + options.io);
  // Else it would take the first cores, where the load may be.
  if (options.server_cpus.empty()) arguments.emplace_back("--pin=false");
  return std::make_unique<OwnServer>(arguments, options.server_cpus);
}

// For the denied share every key gets the limit that it counts on; overrides stay with the key.
void set_limits(const Options& options, sluicegate::Connection& connection) {
  const uint32_t batch = std::min(connection.welcome().frame_entries_max, uint32_t{256});
  std::vector<char> text(size_t{batch} * options.key_bytes);
  for (uint32_t first = 0; first < options.keys; first += batch) {
    std::vector<std::string_view> keys;
    for (uint32_t i = 0; i < std::min(batch, options.keys - first); ++i) {
      const auto key = std::span{text}.subspan(size_t{i} * options.key_bytes, options.key_bytes);
      write_key(first + i, key);
      keys.emplace_back(key.data(), key.size());
    }
    const auto verdicts = connection.acquire(keys, {.max_requests = key_permits});
    if (std::ranges::find(verdicts, sluicegate::Verdict::not_allowed) == verdicts.end()) continue;
    throw std::runtime_error(
        "the server does not let requests set limits, so --denied-share "
        "cannot be met: start it with --requests-can-set-rate=true");
  }
}

// Finds out whether the server is there, and how it spreads its keys, before anything is prepared
// for it.
sluicegate::Welcome prepare_server(const Options& options, const Address& server) {
  sluicegate::Connection connection{server.host, server.port, {.client_name = "sluicegate-bench"}};
  // A server of our own has that limit for every key.
  if (options.denied_share > 0 && !options.address.empty()) set_limits(options, connection);
  return connection.welcome();
}

std::optional<Routing> routing_of(const Options& options, const sluicegate::Welcome& welcome) {
  if (options.route == Route::any) return std::nullopt;
  if (!welcome.routing_known || welcome.shards == 0) {
    throw std::runtime_error(
        "this server does not tell how it spreads its keys: run without --route or --misroute");
  }
  if (options.route == Route::strangers && welcome.shards == 1) {
    throw std::invalid_argument("--misroute needs a server of more than one shard");
  }
  // A misrouted run measures crossings: the keys of one shard will do.
  if (options.route == Route::owners && options.connections < welcome.shards) {
    throw std::invalid_argument("--route needs a connection to each of the server's " +
                                std::to_string(welcome.shards) + " shards: --connections " +
                                std::to_string(welcome.shards) + " or more");
  }
  return Routing{.seed = welcome.routing_seed, .shards = welcome.shards};
}

// One stream of frames, or one for each shard. Twice what can be in flight, so that a frame is
// answered long before its turn comes again.
std::vector<FrameSet> prepare_frames(const Options& options,
                                     const std::optional<Routing>& routing) {
  require_key_bytes(options.keys, options.key_bytes);
  const uint32_t shards = routing ? routing->shards : 1;
  const size_t connections = (options.connections + shards - 1) / shards;
  const size_t frames_count = std::max(frames_min, 2 * connections * options.window);
  std::vector<FrameSet> streams;
  if (routing) {
    for (auto& part : routed_sequences(options, frames_count * options.batch, *routing)) {
      streams.emplace_back(options, std::move(part));
    }
  } else {
    streams.emplace_back(options, frames_count);
  }
  size_t count = 0;
  size_t bytes = 0;
  for (const FrameSet& frames : streams) {
    count += frames.count();
    bytes += frames.bytes();
  }
  std::fprintf(stderr, "prepared %zu frames, %.1f MB\n", count, static_cast<double>(bytes) / 1e6);
  return streams;
}

// A line a second.
class Progress {
 public:
  Progress(const char* phase, uint64_t begin_ns) : phase_{phase}, begin_ns_{begin_ns} {}

  // True when a second has passed.
  bool tell(uint64_t now_ns, uint64_t decisions) {
    if (now_ns - begin_ns_ < (shown_ + 1) * second_ns) return false;
    shown_ = (now_ns - begin_ns_) / second_ns;
    const double elapsed_s = static_cast<double>(now_ns - last_ns(begin_ns_)) * 1e-9;
    std::fprintf(stderr, "%s %3llu s  %8.3f M decisions/s\n", phase_,
                 static_cast<unsigned long long>(shown_),
                 static_cast<double>(decisions - decisions_) / elapsed_s / 1e6);
    last_ns_ = now_ns;
    decisions_ = decisions;
    return true;
  }

 private:
  static constexpr uint64_t second_ns = 1'000'000'000;
  uint64_t last_ns(uint64_t begin_ns) const { return last_ns_ != 0 ? last_ns_ : begin_ns; }

  const char* phase_;
  uint64_t begin_ns_;
  uint64_t last_ns_ = 0;
  uint64_t shown_ = 0;
  uint64_t decisions_ = 0;
};

// Runs the loop for `seconds`, and until all frames were answered when it shall be `whole`.
double run_for(Loop& loop, OwnServer* server, const char* phase, double seconds, bool whole) {
  const uint64_t begin_ns = now_ns();
  const uint64_t end_ns = begin_ns + static_cast<uint64_t>(seconds * 1e9);
  Progress progress{phase, begin_ns};
  uint64_t ended_ns = begin_ns;
  loop.run([&](uint64_t now_ns) {
    const VerdictTally& tally = loop.counters().verdicts;
    if (progress.tell(now_ns, tally.decisions()) && server != nullptr) server->discard_log();
    ended_ns = now_ns;
    return now_ns < end_ns || (whole && !loop.every_frame_answered());
  });
  return static_cast<double>(ended_ns - begin_ns) * 1e-9;
}

// The streams have no key in common.
uint64_t distinct_keys(const std::vector<FrameSet>& streams, const Counters& counters) {
  uint64_t distinct = 0;
  for (size_t i = 0; i < streams.size(); ++i) {
    distinct +=
        streams[i].distinct_keys(counters.streams[i].first_frame, counters.streams[i].frames_sent);
  }
  return distinct;
}

Result measure(const Options& options, Loop& loop, OwnServer* server) {
  run_for(loop, server, "warm-up", options.warm_up_seconds, true);
  if (loop.counters().verdicts.decisions() == 0) {
    throw std::runtime_error("the server answered nothing: " +
                             loop.counters().verdicts.refusal_text());
  }
  const pid_t server_pid = server != nullptr ? server->pid() : options.server_pid.value_or(-1);
  const auto server_cpu_s = [&] {
    return server_pid > 0 ? cpu_s_of(server_pid) : std::optional<double>{};
  };
  loop.restart_counters();
  const auto server_cpu_before_s = server_cpu_s();
  const double client_cpu_before_s = own_cpu_s();

  Result result{.counters = &loop.counters()};
  result.seconds = run_for(loop, server, "measure", options.seconds, false);
  result.client_cpu_s = own_cpu_s() - client_cpu_before_s;
  const auto server_cpu_after_s = server_cpu_s();
  if (server_cpu_before_s && server_cpu_after_s) {
    result.server_cpu_s = *server_cpu_after_s - *server_cpu_before_s;
  }
  return result;
}

}  // namespace

int run(Options options) {
  if (options.distribution == Distribution::one) options.keys = 1;
  const auto own_server = options.address.empty() ? start_server(options) : nullptr;
  const Address server =
      own_server ? Address{"127.0.0.1", own_server->native_port()} : parse_address(options.address);
  if (options.client_cpu) pin_to_cpu(*options.client_cpu);
  const auto routing = routing_of(options, prepare_server(options, server));
  const std::vector<FrameSet> streams = prepare_frames(options, routing);
  Loop loop{options, streams, routing, server.host, server.port};

  Result result = measure(options, loop, own_server.get());
  const Counters measured = loop.counters();  // what drains after the clock stopped is not counted
  result.counters = &measured;
  result.distinct_keys = distinct_keys(streams, measured);
  result.shards = std::max(loop.welcome().shards, 1U);
  result.unanswered_frames = loop.drain(drain_seconds_max);
  result.server = "sluicegate " + loop.welcome().server_version + " at " + server.host + ":" +
                  std::to_string(server.port) + (own_server ? " (started for this run)" : "");
  std::fputs(summary(options, result).c_str(), options.json ? stderr : stdout);
  if (options.json) std::puts(json_line(options, result).c_str());
  return measured.verdicts.refusals() + result.unanswered_frames > 0 ? 1 : 0;
}

}  // namespace sluice::load
