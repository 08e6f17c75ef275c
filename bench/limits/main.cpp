// loopback_limits: the ceiling that this machine's loopback and kernel set for any server.
#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include "bench/limits/echo.hpp"
#include "bench/limits/http.hpp"
#include "bench/limits/raw.hpp"
#include "bench/limits/redis.hpp"

namespace sluice::limits_bench {
namespace {

constexpr const char* description =
    R"(Measures what loopback allows when a server decides nothing: a ceiling for any server.

  loopback_limits raw  --server-cpu 0 --client-cpu 1              bytes, unread
  loopback_limits echo --server-cpu 0 --client-cpu 1              items of 4 bytes, 4 back
  loopback_limits echo --server-cpu 0 --client-cpu 1 --item-bytes 276 --batch 256 --window 16
  loopback_limits echo --server-cpu 0 --client-cpu 1 --batch 256 --rate 1000000    at fixed times
  loopback_limits redis --port 6379 --client-cpu 1 --rate 500000     a Redis server, likewise
  loopback_limits http --server-cpu 0 & wrk http://127.0.0.1:PORT/

Compare only with runs of the same minutes on the same machine, and compare the CPU of both sides: a
rate describes the server only when its core is the busy one.
)";

constexpr const char* raw_text =
    R"(Blocking send() and recv() of 64 KiB on one connection, a thread for each side. What the
receiver got counts. No server that reads its input can receive more than this on one connection
between these two cores.
)";

constexpr const char* echo_text =
    R"(Each item is answered with the 4-byte number it begins with. The client (epoll) keeps
--window frames of --batch items in flight on each connection, and compares every reply. The
server (io_uring, multishot receives) knows no frames, only items. The clock starts after a tenth
of --seconds. The bytes to send are in the cache: a real client has to produce them first. With
--rate frames are sent at fixed times, and latency counts from those, whatever the server does.
)";

constexpr const char* redis_text =
    R"(A peer's server under the load that `sluicegate bench` sends: INCR of --keys keys, each once
in random order before one is repeated, in pipelines of --batch commands, which are prepared before
the clock starts. A closed loop keeps --window pipelines in flight on each connection; with --rate
pipelines are sent at fixed times, and latency counts from those to a pipeline's last reply. It
leaves its keys in the server.

  redis-server --port 6400 --save '' & loopback_limits redis --port 6400 --batch 64 --rate 500000
)";

constexpr const char* http_text =
    R"(One thread, epoll, the same short 200 for everything. The first line on stdout is the port.
A load tool has to be started beside it, such as

  wrk -c 64 -t 1 -d 5 http://127.0.0.1:PORT/

It ends by SIGINT or SIGTERM, or after --seconds, and then prints how many requests it answered and
the CPU time that took. A request ends at its empty line: it counts only requests without a body
correctly.
)";

constexpr double rate_max = 1e9;

struct Options {
  Run run;
  Echo echo;
  Redis redis;
  uint16_t port = 0;
  bool json = false;
};

// The help text states the bounds, instead of CLI11's notation for them.
template <typename Number>
void add_number(CLI::App& command, const char* name, Number& value, Number min, Number max,
                const std::string& text) {
  const std::string bounds = CLI::detail::to_string(min) + " to " + CLI::detail::to_string(max);
  command.add_option(name, value, text + "; " + bounds)
      ->type_name("N")
      ->check(CLI::Range(min, max).description(""))
      ->capture_default_str();
}

CLI::App& add_command(CLI::App& app, const char* name, const char* brief, const char* text,
                      Options& options) {
  CLI::App& command = *app.add_subcommand(name, brief);
  command.footer(text);
  command.add_flag("--json", options.json, "one line of JSON on stdout, the summary on stderr");
  return command;
}

void add_server_cpu(CLI::App& command, Options& options) {
  command.add_option("--server-cpu", options.run.server_cpu, "core for the server")->type_name("N");
}

void add_client_cpu(CLI::App& command, Options& options) {
  command.add_option("--client-cpu", options.run.client_cpu, "core for the client")->type_name("N");
}

void print(const Options& options, const Report& report) {
  (options.json ? std::cerr : std::cout) << report.summary;
  if (options.json) std::cout << report.line.dump() << '\n';
}

// With --json a line of its own, before the line of the report.
void print_port(const Options& options, uint16_t port) {
  if (options.json) {
    std::cout << nlohmann::json{{"port", port}}.dump() << std::endl;
  } else {
    std::cout << port << std::endl;
  }
}

void add_raw(CLI::App& app, Options& options, std::function<Report()>& run) {
  CLI::App& command = add_command(app, "raw", "bytes of one connection, unread", raw_text, options);
  add_server_cpu(command, options);
  add_client_cpu(command, options);
  add_number(command, "--seconds", options.run.seconds, 0.01, 600.0, "to measure");
  command.callback([&] { run = [&] { return run_raw(options.run); }; });
}

void add_echo(CLI::App& app, Options& options, std::function<Report()>& run) {
  CLI::App& command = add_command(
      app, "echo", "items answered with 4 bytes each, nothing is decided", echo_text, options);
  add_server_cpu(command, options);
  add_client_cpu(command, options);
  add_number(command, "--seconds", options.run.seconds, 0.01, 600.0, "to measure");
  add_number(command, "--item-bytes", options.echo.item_bytes, 4U, 65'536U, "of an item");
  add_number(command, "--batch", options.echo.batch, 1U, 65'536U, "items in a frame");
  add_number(command, "--window", options.echo.window, 1U, 1'024U,
             "frames in flight on a connection");
  add_number(command, "--connections", options.echo.connections, 1U, 256U, "to the one server");
  add_number(command, "--rate", options.echo.rate, 0.0, rate_max,
             "items a second at fixed times, 0: a closed loop");
  command.callback([&] { run = [&] { return run_echo(options.run, options.echo); }; });
}

void add_redis(CLI::App& app, Options& options, std::function<Report()>& run) {
  CLI::App& command =
      add_command(app, "redis", "a Redis server under pipelines of INCR", redis_text, options);
  add_client_cpu(command, options);
  Redis& redis = options.redis;
  add_number<uint16_t>(command, "--port", redis.port, 1, 65'535, "of the server on 127.0.0.1");
  command
      .add_option("--server-pid", redis.server_pid, "where to read its CPU time and page faults")
      ->type_name("PID");
  add_number(command, "--seconds", options.run.seconds, 0.01, 600.0, "to measure");
  add_number(command, "--keys", redis.keys, 1U, 100'000'000U, "different keys");
  add_number(command, "--batch", redis.batch, 1U, 65'536U, "commands in a pipeline");
  add_number(command, "--window", redis.window, 1U, 1'024U, "pipelines in flight on a connection");
  add_number(command, "--connections", redis.connections, 1U, 256U, "to the server");
  add_number(command, "--rate", redis.rate, 0.0, rate_max,
             "commands a second at fixed times, 0: a closed loop");
  command.callback([&] { run = [&] { return run_redis(options.run, options.redis); }; });
}

void add_http(CLI::App& app, Options& options, std::function<Report()>& run) {
  CLI::App& command = add_command(app, "http", "a server that answers every HTTP request the same",
                                  http_text, options);
  add_server_cpu(command, options);
  const auto seconds = std::make_shared<double>(600);
  add_number(command, "--seconds", *seconds, 0.01, 86'400.0, "at most, if no signal comes before");
  add_number<uint16_t>(command, "--port", options.port, 0, 65'535, "to listen on; 0: a free one");
  command.callback([&, seconds] {
    options.run.seconds = *seconds;
    run = [&] {
      return run_http(options.run, options.port, [&](uint16_t port) { print_port(options, port); });
    };
  });
}

int run_program(int argc, char** argv) {
  CLI::App app{description, "loopback_limits"};
  app.require_subcommand(1);
  Options options;
  std::function<Report()> run;
  add_raw(app, options, run);
  add_echo(app, options, run);
  add_redis(app, options, run);
  add_http(app, options, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  print(options, run());
  return 0;
}

}  // namespace
}  // namespace sluice::limits_bench

int main(int argc, char** argv) {
  try {
    return sluice::limits_bench::run_program(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "Error: " << error.what() << '\n';
    return 2;
  }
}
