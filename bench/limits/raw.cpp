#include "bench/limits/raw.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <future>
#include <vector>

#include "bench/limits/sockets.hpp"
#include "load/clocks.hpp"

namespace sluice::limits_bench {
namespace {

constexpr size_t buffer_bytes = 64 * 1024;
constexpr double silence_s_max = 5;  // only a broken machine takes longer

struct Received {
  uint64_t bytes = 0;
  uint64_t calls = 0;
  double cpu_s = 0;
};

double thread_cpu_s() {
  return static_cast<double>(load::read_ns(CLOCK_THREAD_CPUTIME_ID)) * 1e-9;
}

// Receives until the other side has shut down its sending.
Received receive_all(int fd, int cpu) {
  pin_if_asked(cpu);
  std::vector<std::byte> buffer(buffer_bytes);
  Received received;
  const double began_cpu_s = thread_cpu_s();
  for (;;) {
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("receiving failed");
    if (got == 0) break;
    received.bytes += static_cast<uint64_t>(got);
    ++received.calls;
  }
  received.cpu_s = thread_cpu_s() - began_cpu_s;
  return received;
}

void send_until(int fd, uint64_t end_ns) {
  const std::vector<std::byte> buffer(buffer_bytes, std::byte{1});
  while (load::now_ns() < end_ns) {
    const ssize_t sent = ::send(fd, buffer.data(), buffer.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) throw_errno("sending failed");
  }
}

Report report(const Run& run, const Received& received, double seconds, double client_cpu_s) {
  const double bytes_per_s = static_cast<double>(received.bytes) / seconds;
  return {
      .line = {{"limit", "raw"},
               {"bytes_per_s", std::round(bytes_per_s)},
               {"bytes", received.bytes},
               {"receives", received.calls},
               {"seconds", seconds},
               {"client_cpu_s", client_cpu_s},
               {"server_cpu_s", received.cpu_s},
               {"parameters", {{"buffer_bytes", buffer_bytes}, {"seconds", run.seconds}}}},
      .summary = fmt::format("  bytes         {:.2f} GB/s, {:.0f} bytes a receive\n"
                             "  client CPU    {}\n"
                             "  server CPU    {}\n",
                             bytes_per_s * 1e-9,
                             static_cast<double>(received.bytes) /
                                 static_cast<double>(std::max<uint64_t>(received.calls, 1)),
                             cpu_text(client_cpu_s, seconds), cpu_text(received.cpu_s, seconds))};
}

}  // namespace

Report run_raw(const Run& run) {
  const std::vector<Pair> pairs = connect_pairs(1);
  const int client = pairs.front().client.get();
  const int server = pairs.front().server.get();
  limit_waits(client, silence_s_max);
  limit_waits(server, silence_s_max);
  auto receiver = std::async(std::launch::async, receive_all, server, run.server_cpu);
  try {
    pin_if_asked(run.client_cpu);
    const double began_cpu_s = thread_cpu_s();
    const uint64_t began_ns = load::now_ns();
    send_until(client, began_ns + static_cast<uint64_t>(run.seconds * 1e9));
    end_clients(pairs);
    const double client_cpu_s = thread_cpu_s() - began_cpu_s;
    const Received received = receiver.get();
    const double seconds = static_cast<double>(load::now_ns() - began_ns) * 1e-9;
    return report(run, received, seconds, client_cpu_s);
  } catch (...) {
    end_clients(pairs);  // otherwise the receiver would wait for more
    if (receiver.valid()) receiver.get();
    throw;
  }
}

}  // namespace sluice::limits_bench
