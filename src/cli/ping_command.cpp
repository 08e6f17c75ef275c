#include "cli/ping_command.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/between.hpp"
#include "cli/native_server.hpp"
#include "sluicegate/error.hpp"

namespace sluice::cli {
namespace {

constexpr const char* ping_description =
    R"(Pings a running server, one ping after the other over one connection, and
prints how long they took.

  sluicegate ping
  sluicegate ping --address rates.internal:8081 --count 100
  sluicegate ping --timeout-millis 200 && echo up

Exit code: 0 when all were answered, 1 when some were not, 2 when there was no answer at all.
)";

struct PingFlags {
  NativeServer server;
  uint32_t count = 4;
};

// The measured round trips, and the fault that ended them early.
struct RoundTrips {
  std::vector<std::chrono::nanoseconds> times;
  std::string fault;
};

RoundTrips measure(sluicegate::Connection& connection, uint32_t count) {
  using Clock = std::chrono::steady_clock;
  RoundTrips trips;
  for (uint32_t i = 0; i < count; ++i) {
    const auto begin = Clock::now();
    try {
      connection.ping();
    } catch (const sluicegate::Error& error) {
      if (trips.times.empty()) throw;
      trips.fault = error.what();
      break;
    }
    trips.times.push_back(Clock::now() - begin);
  }
  return trips;
}

std::string summary(const sluicegate::Welcome& server, uint32_t count, RoundTrips& trips) {
  std::ranges::sort(trips.times);
  const size_t answered = trips.times.size();
  const auto median = (trips.times[(answered - 1) / 2] + trips.times[answered / 2]) / 2;
  const auto us = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double, std::micro>(time).count();
  };
  return fmt::format(
      "{} of {} answered: min {:.1f} us, median {:.1f} us, max {:.1f} us (sluicegate {}, shard {} "
      "of {})\n",
      answered, count, us(trips.times.front()), us(median), us(trips.times.back()),
      printable(server.server_version), server.shard, server.shards);
}

int ping(const PingFlags& flags) {
  const auto connection = connect(flags.server, "ping");
  RoundTrips trips = measure(*connection, flags.count);
  std::fputs(summary(connection->welcome(), flags.count, trips).c_str(), stdout);
  if (trips.fault.empty()) return 0;
  std::fprintf(stderr, "Error: %s\n", trips.fault.c_str());
  return 1;
}

}  // namespace

void add_ping_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("ping", ping_description);
  const auto flags = std::make_shared<PingFlags>();
  add_native_server(*command, flags->server);
  command->add_option("--count", flags->count, "how often; 1 to 1000000")
      ->type_name("N")
      ->check(between(number_option("ping", "--count")))
      ->capture_default_str();
  command->callback([flags, &run] { run = [flags] { return ping(*flags); }; });
}

}  // namespace sluice::cli
