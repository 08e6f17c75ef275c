#include "bench/limits/echo.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/limits/echo_server.hpp"
#include "bench/limits/measure.hpp"
#include "bench/limits/pipeline_sender.hpp"
#include "bench/limits/sockets.hpp"
#include "load/clocks.hpp"

namespace sluice::limits_bench {
namespace {

constexpr double busy_share = 0.95;  // of a core: that side limits the run
constexpr size_t compared_bytes = 64 * 1024;

void write_number(std::byte* at, uint32_t number) {
  std::memcpy(at, &number, sizeof number);
}

// The number of each item, over and over: every frame is the same, so a count of bytes determines
// the bytes to expect.
class EchoReplies final : public Replies {
 public:
  explicit EchoReplies(uint32_t batch)
      : frame_bytes_{size_t{batch} * reply_bytes},
        expected_((compared_bytes / frame_bytes_ + 2) * frame_bytes_) {
    for (size_t item = 0; item < expected_.size() / reply_bytes; ++item) {
      write_number(&expected_[item * reply_bytes], static_cast<uint32_t>(item % batch));
    }
  }

  uint64_t take(std::span<const std::byte> received) override {
    const uint64_t before = bytes_;
    while (!received.empty()) {
      const auto part = received.first(std::min(received.size(), compared_bytes));
      if (std::memcmp(part.data(), &expected_[bytes_ % frame_bytes_], part.size()) != 0) {
        throw std::runtime_error("the server answered with another number than the item's");
      }
      bytes_ += part.size();
      received = received.subspan(part.size());
    }
    return bytes_ / reply_bytes - before / reply_bytes;
  }

 private:
  size_t frame_bytes_;
  std::vector<std::byte> expected_;  // from any place in a frame on
  uint64_t bytes_ = 0;               // received since the start
};

// A window of equal frames.
Frames frames_of(const Echo& echo) {
  std::vector<std::byte> frame(size_t{echo.batch} * echo.item_bytes);
  for (uint32_t item = 0; item < echo.batch; ++item) {
    write_number(&frame[size_t{item} * echo.item_bytes], item);
  }
  Frames frames{echo.batch};
  for (uint32_t i = 0; i < echo.window; ++i) frames.append(frame);
  return frames;
}

std::vector<std::unique_ptr<load::Sender>> senders_of(const std::vector<Pair>& pairs,
                                                      const Frames& frames, const Echo& echo) {
  std::vector<std::unique_ptr<load::Sender>> senders;
  for (const Pair& pair : pairs) {
    make_nonblocking(pair.client.get());
    senders.push_back(std::make_unique<PipelineSender>(pair.client.get(), frames, 0, echo.window,
                                                       std::make_unique<EchoReplies>(echo.batch)));
  }
  return senders;
}

// The time at which the server gives up.
uint64_t server_end_ns(const Run& run) {
  const double end_s = (1 + warm_up_share) * run.seconds + 2 * late_s_max;
  return load::now_ns() + static_cast<uint64_t>(end_s * 1e9);
}

// Runs on a thread of its own; sets `ready` to its counts in the kernel, or to an exception.
void serve(std::vector<int> sockets, const Echo& echo, int cpu, uint64_t end_ns,
           std::promise<ServerTask> ready) {
  std::unique_ptr<EchoServer> server;
  try {
    pin_if_asked(cpu);
    server = std::make_unique<EchoServer>(sockets, echo.item_bytes,
                                          size_t{echo.window} * echo.batch * reply_bytes);
    ready.set_value(this_thread());
  } catch (...) {
    ready.set_exception(std::current_exception());
    return;
  }
  server->run(end_ns);
}

std::string warning(const Echo& echo, const Measured& measured) {
  if (echo.rate > 0) return {};
  if (std::max(measured.client_cpu_s, *measured.server_cpu_s) >= busy_share * measured.seconds) {
    return {};
  }
  return "  Neither side kept its core busy: the window was too small, or others used the cores.\n"
         "  Then CPU time per item is more meaningful than the rate.\n";
}

nlohmann::ordered_json line_of(const Run& run, const Echo& echo, const Measured& measured) {
  const uint64_t items = measured.frames * echo.batch;
  const double frames_per_s = static_cast<double>(measured.frames) / measured.seconds;
  nlohmann::ordered_json line{{"limit", "echo"},
                              {"items_per_s", std::round(frames_per_s * echo.batch)},
                              {"frames_per_s", std::round(frames_per_s)},
                              {"items", items}};
  add_fields(line, measured, echo.rate);
  line["parameters"] = {{"connections", echo.connections},
                        {"item_bytes", echo.item_bytes},
                        {"batch", echo.batch},
                        {"window", echo.window},
                        {"rate", echo.rate},
                        {"seconds", run.seconds}};
  return line;
}

Report report(const Run& run, const Echo& echo, const Measured& measured) {
  const double seconds = measured.seconds;
  const auto items = static_cast<double>(measured.frames * echo.batch);
  const auto ns_per_item = [&](double cpu_s) { return items > 0 ? 1e9 * cpu_s / items : 0; };
  return {.line = line_of(run, echo, measured),
          .summary = fmt::format(
              "  items         {:.2f} M/s of {} bytes, every reply read and compared\n"
              "  bytes         {:.2f} GB/s out, {:.2f} GB/s in\n"
              "  client CPU    {}, {:.1f} ns an item\n"
              "  server CPU    {}, {:.1f} ns an item\n"
              "{}{}",
              items / seconds * 1e-6, echo.item_bytes,
              static_cast<double>(measured.traffic.bytes_sent) / seconds * 1e-9,
              static_cast<double>(measured.traffic.bytes_received) / seconds * 1e-9,
              cpu_text(measured.client_cpu_s, seconds), ns_per_item(measured.client_cpu_s),
              cpu_text(*measured.server_cpu_s, seconds), ns_per_item(*measured.server_cpu_s),
              latency_lines(measured, echo.rate), warning(echo, measured))};
}

std::vector<int> servers_of(const std::vector<Pair>& pairs) {
  std::vector<int> fds;
  for (const Pair& pair : pairs) fds.push_back(pair.server.get());
  return fds;
}

}  // namespace

Report run_echo(const Run& run, const Echo& echo) {
  if (uint64_t{echo.window} * echo.batch * echo.item_bytes > window_bytes_max) {
    throw std::invalid_argument("--window x --batch x --item-bytes may be 64 MiB at most");
  }
  const std::vector<Pair> pairs = connect_pairs(echo.connections);
  std::promise<ServerTask> promise;
  auto ready = promise.get_future();
  auto server = std::async(std::launch::async, serve, servers_of(pairs), echo, run.server_cpu,
                           server_end_ns(run), std::move(promise));
  const ServerTask server_task = ready.get();
  try {
    pin_if_asked(run.client_cpu);
    const Frames frames = frames_of(echo);
    load::Loop loop{senders_of(pairs, frames, echo), echo.rate, echo.batch};
    const Measured measured = measure(loop, run.seconds, server_task);
    end_clients(pairs);
    server.get();
    return report(run, echo, measured);
  } catch (...) {
    end_clients(pairs);
    if (server.valid()) server.get();  // the server's own error is more useful
    throw;
  }
}

}  // namespace sluice::limits_bench
