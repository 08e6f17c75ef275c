#include "bench/limits/echo.hpp"

#include <pthread.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/limits/echo_client.hpp"
#include "bench/limits/echo_server.hpp"
#include "bench/limits/sockets.hpp"
#include "load/clocks.hpp"

namespace sluice::limits_bench {
namespace {

constexpr double warm_up_share = 0.1;  // of the run, before it
constexpr double busy_share = 0.95;    // of a core: that side limits the run
constexpr double late_s_max = 5;       // for replies in flight at the end

// The end of each part of a run.
struct Times {
  uint64_t warm_up_end_ns;
  uint64_t end_ns;
  uint64_t late_end_ns;    // the last reply must have arrived
  uint64_t server_end_ns;  // the server gives up
};

Times times_of(const Run& run) {
  const double end_s = (1 + warm_up_share) * run.seconds;
  const auto after = [began_ns = load::now_ns()](double seconds) {
    return began_ns + static_cast<uint64_t>(seconds * 1e9);
  };
  return {.warm_up_end_ns = after(warm_up_share * run.seconds),
          .end_ns = after(end_s),
          .late_end_ns = after(end_s + late_s_max),
          .server_end_ns = after(end_s + 2 * late_s_max)};
}

// The counts of both sides at one moment.
struct Moment {
  uint64_t at_ns;
  EchoCounts counts;
  uint64_t client_cpu_ns;
  uint64_t server_cpu_ns;
};

Moment take_snapshot(const EchoClient& client, clockid_t server_clock) {
  return {.at_ns = load::now_ns(),
          .counts = client.counts(),
          .client_cpu_ns = load::read_ns(CLOCK_THREAD_CPUTIME_ID),
          .server_cpu_ns = load::read_ns(server_clock)};
}

// Runs on a thread of its own; sets `ready` to the clock of its CPU time, or to an exception.
void serve(std::vector<int> sockets, const Echo& echo, int cpu, uint64_t end_ns,
           std::promise<clockid_t> ready) {
  std::unique_ptr<EchoServer> server;
  try {
    pin_if_asked(cpu);
    server = std::make_unique<EchoServer>(sockets, echo.item_bytes,
                                          size_t{echo.window} * echo.batch * reply_bytes);
    clockid_t clock{};
    ::pthread_getcpuclockid(::pthread_self(), &clock);
    ready.set_value(clock);
  } catch (...) {
    ready.set_exception(std::current_exception());
    return;
  }
  server->run(end_ns);
}

std::string warning(double client_cpu_s, double server_cpu_s, double seconds) {
  if (std::max(client_cpu_s, server_cpu_s) >= busy_share * seconds) return {};
  return "  Neither side kept its core busy: the window was too small, or others used the cores.\n"
         "  Then CPU time per item is more meaningful than the rate.\n";
}

Report report(const Run& run, const Echo& echo, const Moment& begin, const Moment& end) {
  const double seconds = static_cast<double>(end.at_ns - begin.at_ns) * 1e-9;
  const uint64_t items = end.counts.items - begin.counts.items;
  const double client_cpu_s = static_cast<double>(end.client_cpu_ns - begin.client_cpu_ns) * 1e-9;
  const double server_cpu_s = static_cast<double>(end.server_cpu_ns - begin.server_cpu_ns) * 1e-9;
  const double items_per_s = static_cast<double>(items) / seconds;
  const auto ns_per_item = [&](double cpu_s) {
    return items > 0 ? 1e9 * cpu_s / static_cast<double>(items) : 0;
  };
  return {.line = {{"limit", "echo"},
                   {"items_per_s", std::round(items_per_s)},
                   {"frames_per_s", std::round(items_per_s / echo.batch)},
                   {"items", items},
                   {"bytes_out", items * echo.item_bytes},
                   {"bytes_in", items * reply_bytes},
                   {"client_sends", end.counts.sends - begin.counts.sends},
                   {"client_receives", end.counts.receives - begin.counts.receives},
                   {"seconds", seconds},
                   {"client_cpu_s", client_cpu_s},
                   {"server_cpu_s", server_cpu_s},
                   {"parameters",
                    {{"connections", echo.connections},
                     {"item_bytes", echo.item_bytes},
                     {"batch", echo.batch},
                     {"window", echo.window},
                     {"seconds", run.seconds}}}},
          .summary =
              fmt::format("  items         {:.2f} M/s of {} bytes, every reply read and compared\n"
                          "  bytes         {:.2f} GB/s out, {:.2f} GB/s in\n"
                          "  client CPU    {}, {:.1f} ns an item\n"
                          "  server CPU    {}, {:.1f} ns an item\n"
                          "{}",
                          items_per_s * 1e-6, echo.item_bytes, items_per_s * echo.item_bytes * 1e-9,
                          items_per_s * reply_bytes * 1e-9, cpu_text(client_cpu_s, seconds),
                          ns_per_item(client_cpu_s), cpu_text(server_cpu_s, seconds),
                          ns_per_item(server_cpu_s), warning(client_cpu_s, server_cpu_s, seconds))};
}

Report measure(const Run& run, const Echo& echo, const Times& times, EchoClient& client,
               clockid_t server_clock) {
  client.run(times.warm_up_end_ns);
  const Moment begin = take_snapshot(client, server_clock);
  client.run(times.end_ns);
  const Moment end = take_snapshot(client, server_clock);
  client.finish(times.late_end_ns);
  return report(run, echo, begin, end);
}

std::vector<int> ends_of(const std::vector<Pair>& pairs, io::FileDescriptor Pair::*end) {
  std::vector<int> fds;
  for (const Pair& pair : pairs) fds.push_back((pair.*end).get());
  return fds;
}

}  // namespace

Report run_echo(const Run& run, const Echo& echo) {
  if (uint64_t{echo.window} * echo.batch * echo.item_bytes > window_bytes_max) {
    throw std::invalid_argument("--window x --batch x --item-bytes may be 64 MiB at most");
  }
  const Times times = times_of(run);
  const std::vector<Pair> pairs = connect_pairs(echo.connections);
  std::promise<clockid_t> promise;
  auto ready = promise.get_future();
  auto server = std::async(std::launch::async, serve, ends_of(pairs, &Pair::server), echo,
                           run.server_cpu, times.server_end_ns, std::move(promise));
  const clockid_t server_clock = ready.get();
  try {
    pin_if_asked(run.client_cpu);
    EchoClient client(ends_of(pairs, &Pair::client), echo);
    const Report found = measure(run, echo, times, client, server_clock);
    end_clients(pairs);
    server.get();
    return found;
  } catch (...) {
    end_clients(pairs);
    if (server.valid()) server.get();  // the server's own error is more useful
    throw;
  }
}

}  // namespace sluice::limits_bench
