#include "load/run.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "load/client_sender.hpp"
#include "load/clocks.hpp"
#include "load/cpus.hpp"
#include "load/frame_set.hpp"
#include "load/key_sequence.hpp"
#include "load/loop.hpp"
#include "load/own_server.hpp"
#include "load/page_faults.hpp"
#include "load/prepare.hpp"
#include "load/replay_sender.hpp"
#include "load/report.hpp"
#include "sluicegate/address.hpp"

namespace sluice::load {
namespace {

constexpr double drain_seconds_max = 5;
constexpr uint64_t handles_min = 10'000, handles_limit = 1'000'000'000;

// In a window that outlasts the run, denied keys stay denied. Few keys would use up their permits
// in such a window; for them a window is short, and has so many entries that its first one, which
// takes the permits, hardly counts.
constexpr const char* long_window_ms = "3600000";
constexpr const char* short_window_ms = "1000";

// The server's own default of --max-keys.
constexpr uint64_t keys_max_by_default = 10'000'000;

std::unique_ptr<OwnServer> start_server(const Options& options) {
  const bool few = options.keys <= few_keys || options.distribution == Distribution::one;
  std::vector<std::string> arguments{
      "--max-requests=" + std::to_string(key_permits),
      std::string{"--window-millis="} + (few ? short_window_ms : long_window_ms),
      "--max-keys=" + std::to_string(std::max<uint64_t>(
                          options.keys + options.new_keys + options.keys / 5, keys_max_by_default)),
      "--shards=" + std::to_string(options.shards)};
  // Each shard has a part of the handles; one connection may have all of its keys on one shard.
  if (options.handles) {
    const uint64_t handles = (options.keys + options.keys / 5 + handles_min) * options.shards;
    arguments.push_back("--max-handles=" + std::to_string(std::min(handles, handles_limit)));
  }
  if (!options.io.empty()) arguments.push_back("--io=" + options.io);
  // Otherwise the server would pin itself to the first cores, where the load may run.
  if (options.server_cpus.empty()) arguments.emplace_back("--pin=false");
  return std::make_unique<OwnServer>(arguments, options.server_cpus);
}

// Everything a run needs when the clock starts; each member uses those before it.
class Load {
 public:
  Load(const Options& options, const sluicegate::Address& server) : options_{options} {
    const auto routing = routing_of(options, probe(server));
    links_ = connect_links(options, routing, server);
    streams_ = make_streams(options, routing, links_);
    set_up_server();
    std::vector<std::unique_ptr<Sender>> senders;
    for (Link& link : links_) {
      if (streams_[link.stream].frames_count() == 0) continue;  // its shard owns no key
      senders.push_back(options.client ? client_sender(link) : replay_sender(link));
    }
    print_preparation();
    loop_.emplace(std::move(senders), options.rate, options.batch);
  }

  Loop& loop() noexcept { return *loop_; }
  const sluicegate::Welcome& welcome() const noexcept {
    return links_.front().connection->welcome();
  }

  void restart_counters() {
    for (Stream& stream : streams_) stream.restart_counters();
    loop_->restart_counters();
  }

  // Whether at least as many frames were answered since as every stream has.
  bool every_frame_answered() const {
    for (const Link& link : links_) {
      if (!streams_[link.stream].every_frame_answered()) return false;
    }
    return true;
  }

  uint64_t distinct_keys() const {
    std::vector<bool> asked(options_.keys + options_.new_keys);
    for (const Stream& stream : streams_) stream.mark_asked_keys(asked);
    return static_cast<uint64_t>(std::ranges::count(asked, true));
  }

  // Leaves no key denied on a server that is not ours.
  void clean_up() {
    if (options_.address.empty() || !denied_by_key(options_)) return;
    release_denied_keys(options_, streams_, links_);
  }

 private:
  // Connects before anything is prepared: fails early when no server answers, and reads its
  // routing.
  static sluicegate::Welcome probe(const sluicegate::Address& server) {
    return sluicegate::Connection{server.host, server.port, {.client_name = "sluicegate-bench"}}
        .welcome();
  }

  // The denied share needs a known limit for every key; on our own server all keys have it.
  void set_up_server() {
    std::optional<uint32_t> permits;
    if (options_.denied_share > 0 && !options_.address.empty()) permits = key_permits;
    warm_keys(options_, streams_, links_, permits);
    if (options_.handles) intern_keys(options_, streams_, links_);
  }

  std::unique_ptr<Sender> client_sender(Link& link) {
    return std::make_unique<ClientSender>(*link.connection, streams_[link.stream],
                                          link.handles ? &*link.handles : nullptr, options_);
  }

  // The senders of one stream share its frames.
  std::unique_ptr<Sender> replay_sender(Link& link) {
    Stream& stream = streams_[link.stream];
    const auto same = std::ranges::find_if(
        replays_, [&](const Replay& replay) { return &replay.stream == &stream; });
    Replay& replay =
        same != replays_.end()
            ? *same
            : replays_.emplace_back(
                  stream, FrameSet{options_, stream, link.handles ? &*link.handles : nullptr});
    return std::make_unique<ReplaySender>(*link.connection, replay, options_.window);
  }

  void print_preparation() const {
    size_t frames = 0;
    size_t bytes = 0;
    for (const Replay& replay : replays_) {
      frames += replay.frames.count();
      bytes += replay.frames.bytes();
    }
    if (options_.client) return;
    std::fprintf(stderr, "prepared %zu frames, %.1f MB\n", frames,
                 static_cast<double>(bytes) / 1e6);
  }

  const Options& options_;
  std::vector<Link> links_;
  std::deque<Stream> streams_;  // senders refer to them
  std::deque<Replay> replays_;
  std::optional<Loop> loop_;
};

// Prints a line per second.
class Progress {
 public:
  Progress(const char* phase, uint64_t begin_ns) : phase_{phase}, begin_ns_{begin_ns} {}

  // True when a second has passed.
  bool print_once_a_second(uint64_t now_ns, uint64_t decisions) {
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

// Runs the loop for `seconds`; with `whole` it goes on until all frames were answered.
double run_for(Load& load, OwnServer* server, const char* phase, double seconds, bool whole) {
  const uint64_t begin_ns = now_ns();
  const uint64_t end_ns = begin_ns + static_cast<uint64_t>(seconds * 1e9);
  Progress progress{phase, begin_ns};
  uint64_t ended_ns = begin_ns;
  load.loop().run([&](uint64_t now_ns) {
    const VerdictTally& tally = load.loop().counters().verdicts;
    if (progress.print_once_a_second(now_ns, tally.decisions()) && server != nullptr)
      server->discard_log();
    ended_ns = now_ns;
    return now_ns < end_ns || (whole && !load.every_frame_answered());
  });
  return static_cast<double>(ended_ns - begin_ns) * 1e-9;
}

// Denial by cost needs one entry per key that takes the permits; these keys are few.
void warm_up(const Options& options, Load& load, OwnServer* server) {
  load.restart_counters();
  run_for(load, server, "warm-up", options.warm_up_seconds, denied_by_cost(options));
  const VerdictTally& tally = load.loop().counters().verdicts;
  if (tally.decisions() == 0 && tally.refusals() > 0) {
    throw std::runtime_error("the server answered nothing: " + tally.refusal_text());
  }
}

Result measure(const Options& options, Load& load, OwnServer* server) {
  const pid_t server_pid = server != nullptr ? server->pid() : options.server_pid.value_or(-1);
  const auto server_cpu_s = [&] {
    return server_pid > 0 ? cpu_s_of(server_pid) : std::optional<double>{};
  };
  load.restart_counters();
  const auto faults_before = page_faults_of(server_pid);
  const auto server_cpu_before_s = server_cpu_s();
  const double client_cpu_before_s = own_cpu_s();

  Result result;
  result.seconds = run_for(load, server, "measure", options.seconds, false);
  result.client_cpu_s = own_cpu_s() - client_cpu_before_s;
  const auto server_cpu_after_s = server_cpu_s();
  if (server_cpu_before_s && server_cpu_after_s) {
    result.server_cpu_s = *server_cpu_after_s - *server_cpu_before_s;
  }
  const auto faults_after = page_faults_of(server_pid);
  if (faults_before && faults_after) result.server_page_faults = *faults_after - *faults_before;
  result.behind_s = load.loop().behind_s();
  return result;
}

}  // namespace

int run(Options options) {
  if (options.distribution == Distribution::one) options.keys = 1;
  check_new_keys(options);
  const std::vector<int> allowed = allowed_cpus();
  check_cpus("--server-cpu", options.server_cpus, allowed);
  if (options.client_cpu) check_cpus("--client-cpu", {&*options.client_cpu, 1}, allowed);
  const auto own_server = options.address.empty() ? start_server(options) : nullptr;
  const sluicegate::Address server =
      own_server ? sluicegate::Address{"127.0.0.1", own_server->native_port()}
                 : sluicegate::parse_address(options.address);
  if (options.client_cpu) pin_to_cpu(*options.client_cpu);
  Load load{options, server};
  warm_up(options, load, own_server.get());

  Result result = measure(options, load, own_server.get());
  const Counters measured =
      load.loop().counters();  // answers that arrive during the drain do not count
  result.counters = &measured;
  result.distinct_keys = load.distinct_keys();
  result.shards = std::max(load.welcome().shards, 1U);
  result.unanswered_frames = load.loop().drain(drain_seconds_max);
  result.server = "sluicegate " + load.welcome().server_version + " at " +
                  sluicegate::to_text(server) + (own_server ? " (started for this run)" : "");
  if (result.unanswered_frames == 0) load.clean_up();
  std::fputs(summary(options, result).c_str(), options.json ? stderr : stdout);
  if (options.json) std::puts(json_line(options, result).c_str());
  return measured.verdicts.refusals() + result.unanswered_frames > 0 ? 1 : 0;
}

}  // namespace sluice::load
