#include "cli/bench_command.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <map>
#include <memory>
#include <string>

#include "bench/load/run.hpp"

namespace sluice::cli {
namespace {

constexpr const char* description =
    R"(Measures a server under load: decisions per second, latency, CPU on both sides.

A closed loop over --connections connections keeps --window frames of --batch keys in flight on
each. The frames are prepared before the clock starts; every verdict is decoded and counted.

Without --address it starts a server of its own for the run, with limits so high that nothing is
denied but what --denied-share asks for. With --address, that share needs windows longer than the
run there (--window-millis), and leave for requests to set limits.

  sluicegate bench --server-cpu 0 --client-cpu 1
  sluicegate bench --address localhost:8081 --keys 1000 --seconds 3 --json
)";

void add_target_flags(CLI::App& command, load::Options& options) {
  constexpr const char* group = "Server";
  command.add_option("--address", options.address, "HOST:PORT of a running server's native port")
      ->group(group);
  command.add_option("--server-pid", options.server_pid, "where to read that server's CPU time")
      ->check(CLI::PositiveNumber)
      ->group(group);
  command.add_option("--io", options.io, "--io of the server that is started for the run")
      ->check(CLI::IsMember({"auto", "uring", "epoll"}))
      ->group(group);
  command.add_option("--server-cpu", options.server_cpu, "core to pin that server to")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command.add_option("--client-cpu", options.client_cpu, "core to pin the load to")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
}

void add_load_flags(CLI::App& command, load::Options& options) {
  constexpr const char* group = "Load";
  command.add_option("--connections", options.connections)
      ->check(CLI::Range(1U, 65'536U))
      ->capture_default_str()
      ->group(group);
  command.add_option("--batch", options.batch, "keys in a frame")
      ->check(CLI::Range(1U, 65'536U))
      ->capture_default_str()
      ->group(group);
  command.add_option("--window", options.window, "frames in flight on each connection")
      ->check(CLI::Range(1U, 65'536U))
      ->capture_default_str()
      ->group(group);
  command.add_option("--keys", options.keys, "different keys")
      ->check(CLI::Range(1U, 1'000'000'000U))
      ->capture_default_str()
      ->group(group);
  command.add_option("--key-bytes", options.key_bytes, "length of each key")
      ->check(CLI::Range(1U, 65'535U))
      ->capture_default_str()
      ->group(group);
  const std::map<std::string, load::Distribution> distributions{
      {"uniform", load::Distribution::uniform},
      {"zipf", load::Distribution::zipf},
      {"one", load::Distribution::one}};
  command
      .add_option("--distribution", options.distribution,
                  "uniform: every key once, at random, before one comes again; zipf: exponent "
                  "0.99; one: a single key (default: uniform)")
      ->transform(CLI::CheckedTransformer(distributions))
      ->option_text("uniform|zipf|one")
      ->group(group);
  command.add_option("--denied-share", options.denied_share, "of the decisions, from 0 to 1")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
}

void add_run_flags(CLI::App& command, load::Options& options) {
  constexpr const char* group = "Run";
  command.add_option("--seconds", options.seconds, "of measuring")
      ->check(CLI::Range(0.01, 86'400.0))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--warm-up-seconds", options.warm_up_seconds,
                  "before the clock starts; at least every frame is sent once")
      ->check(CLI::Range(0.0, 3'600.0))
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--json", options.json, "print one line of JSON on stdout, the summary on stderr")
      ->group(group);
}

}  // namespace

void add_bench_command(CLI::App& app, std::function<int()>& run) {
  CLI::App* command = app.add_subcommand("bench", description);
  const auto options = std::make_shared<load::Options>();
  add_target_flags(*command, *options);
  add_load_flags(*command, *options);
  add_run_flags(*command, *options);
  command->get_option("--server-cpu")->excludes("--address");
  command->get_option("--io")->excludes("--address");
  command->get_option("--server-pid")->needs("--address");
  command->callback([options, &run] { run = [options] { return load::run(*options); }; });
}

}  // namespace sluice::cli
