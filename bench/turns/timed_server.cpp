// timed_server: a server of one shard that measures its turns, for bench/turns/turns.
// Flow:   ports on stdout -> a line on stdin restarts the measurement, "adopt PATH" also gives the
//         shard new rules -> the next line prints a line of JSON about it -> end of stdin: it ends.
#include <pthread.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <exception>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "bench/turns/turn_clock.hpp"
#include "io/listen.hpp"
#include "io/probe.hpp"
#include "limiter/zone.hpp"
#include "policy/rule_file.hpp"
#include "server/deciders.hpp"
#include "server/worker.hpp"

namespace sluice::turns_bench {
namespace {

constexpr const char* description =
    R"(Serves on two free ports of 127.0.0.1, with one shard, and measures its turns: the CPU time
of the shard's thread outside the kernel's calls. bench/turns/turns starts and loads it.

The first line on stdout has the ports. Lines on stdin:

  begin        the measurement begins
  adopt PATH   the shard takes the rules of a configuration file, as it does in a reload
  end          prints a line of JSON: the turns since begin, the largest apart by page faults

It ends with stdin.
)";

struct Options {
  int cpu = -1;
  uint32_t keys_max = 10'000'000;
  int64_t window_ms = 3'600'000;
  std::string config_file;
  base::IoBackend io = base::IoBackend::automatic;
};

policy::ParsedRules read_rules(const std::string& path) {
  if (path.empty()) return {};
  const policy::TextFile file = policy::read_text_file(path);
  if (!file.error.empty()) throw std::runtime_error(file.error);
  policy::ParsedRules parsed = policy::parse_rules(file.text);
  if (!parsed.complaints.empty()) throw std::runtime_error(parsed.complaints.front());
  return parsed;
}

limiter::Policy default_policy(const Options& options) {
  return {.window_ms = options.window_ms,
          .max_requests = limits::permits_max,
          .max_requests_in_queue = 0};
}

server::WorkerOptions worker_options(const Options& options) {
  server::WorkerOptions worker;
  worker.shard.keys_max = options.keys_max;
  worker.shard.policy = default_policy(options);
  policy::ParsedRules parsed = read_rules(options.config_file);
  worker.rules = std::move(parsed.rules);
  worker.quotas = std::move(parsed.quotas);
  return worker;
}

void pin_to(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0) {
    throw std::runtime_error("core " + std::to_string(cpu) + " may not be used");
  }
}

nlohmann::json to_json(const std::vector<Turn>& turns) {
  nlohmann::json line{{"turns", turns.size()}};
  const auto us = [](int64_t ns) { return static_cast<double>(ns) / 1e3; };
  const auto quantile = [&](double share) {
    const auto place = static_cast<size_t>(share * static_cast<double>(turns.size()));
    return us(turns.at(std::min(place, turns.size() - 1)).cpu_ns);
  };
  if (turns.empty()) return line;
  line["max_us"] = us(turns.front().cpu_ns);
  line["p999_us"] = quantile(0.001);
  line["p99_us"] = quantile(0.01);
  line["p50_us"] = quantile(0.5);
  for (const Turn& turn : std::span(turns).first(std::min(turns.size(), TurnBook::shown_max))) {
    line["largest"].push_back({{"us", us(turn.cpu_ns)},
                               {"events", turn.events},
                               {"received_bytes", turn.received_bytes},
                               {"faults", turn.faults},
                               {"adopted", turn.has_adopted}});
  }
  return line;
}

// The thread of the shard; commands of the main thread meet it between two turns.
class TimedShard {
 public:
  explicit TimedShard(const Options& options) : options_(options) {}

  void run() {
    pin_to(options_.cpu);
    io::Listening http = io::listen_on({.address = "127.0.0.1"});
    io::Listening native = io::listen_on({.address = "127.0.0.1"});
    io::Options io_options;
    io_options.listeners.push_back(std::move(http.sockets.front()));
    io_options.listeners.push_back(std::move(native.sockets.front()));
    const server::WorkerOptions worker_options = turns_bench::worker_options(options_);
    io_options.sockets_max = worker_options.connections_max + server::spare_sockets;
    const auto made = io::make_io(io::choose_backend(options_.io), std::move(io_options));
    TimedIo io(*made.io, clock_);
    server::WorkerGroup group({});
    server::Worker worker(io, worker_options, group, server::make_deciders(worker_options));
    worker.start();
    std::cout << nlohmann::json{{"port", http.port}, {"native_port", native.port}} << std::endl;
    while (!stopped_) turn(worker);
  }

  void stop() noexcept { stopped_ = true; }
  void begin() {
    const std::lock_guard lock(mutex_);
    book_.restart();
  }
  nlohmann::json end() {
    const std::lock_guard lock(mutex_);
    return {{"without_faults", to_json(book_.sorted(false))},
            {"with_faults", to_json(book_.sorted(true))}};
  }
  void adopt(std::unique_ptr<policy::RuleBook> rules) {
    const std::lock_guard lock(mutex_);
    rules_ = std::move(rules);
  }

 private:
  // The adoption is part of the turn behind it: what arrived meanwhile waits for both.
  void turn(server::Worker& worker) {
    {
      const std::lock_guard lock(mutex_);
      if (rules_ != nullptr) {
        clock_.start();
        replaced_ = worker.adopt(std::move(rules_));
        clock_.stop();
        clock_.note_adoption();
      }
    }
    clock_.begin_turn();
    worker.turn(10 * base::ns_per_ms);
    const Turn turn = clock_.end_turn();
    const std::lock_guard lock(mutex_);
    book_.add(turn);
  }

  const Options& options_;
  TurnClock clock_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;  // of the members below
  TurnBook book_;
  std::unique_ptr<policy::RuleBook> rules_;
  std::unique_ptr<policy::RuleBook> replaced_;  // kept: to destroy it takes a while
};

void obey(TimedShard& shard, const Options& options, const std::string& line) {
  constexpr std::string_view adopt = "adopt ";
  if (line == "begin") {
    shard.begin();
  } else if (line == "end") {
    std::cout << shard.end() << std::endl;
  } else if (line.starts_with(adopt)) {
    policy::ParsedRules parsed = read_rules(line.substr(adopt.size()));
    shard.adopt(std::make_unique<policy::RuleBook>(default_policy(options), std::move(parsed.rules),
                                                   std::move(parsed.quotas)));
  } else {
    throw std::runtime_error("no command: " + line);
  }
}

int run(int argc, char** argv) {
  CLI::App app{description};
  Options options;
  std::string io = "auto";
  app.add_option("--cpu", options.cpu, "core for the shard")->type_name("N");
  app.add_option("--max-keys", options.keys_max, "keys")->type_name("N")->capture_default_str();
  app.add_option("--window-millis", options.window_ms, "length of a window")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--config-file", options.config_file, "rules at the start")->type_name("PATH");
  app.add_option("--io", io, "uring, epoll or auto")
      ->check(CLI::IsMember({"uring", "epoll", "auto"}))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (io == "uring") options.io = base::IoBackend::uring;
  if (io == "epoll") options.io = base::IoBackend::epoll;
  limiter::prepare_zones();
  TimedShard shard(options);
  std::thread thread([&] { shard.run(); });
  for (std::string line; std::getline(std::cin, line);) obey(shard, options, line);
  shard.stop();
  thread.join();
  return 0;
}

}  // namespace
}  // namespace sluice::turns_bench

int main(int argc, char** argv) {
  try {
    return sluice::turns_bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "timed_server: " << error.what() << '\n';
    return 1;
  }
}
