#include "bench/limits/redis.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/limits/measure.hpp"
#include "bench/limits/pipeline_sender.hpp"
#include "bench/limits/sockets.hpp"
#include "load/key_sequence.hpp"

namespace sluice::limits_bench {
namespace {

constexpr uint32_t key_bytes = 15;  // as `sluicegate bench` has them

// A reply to INCR is one line, ":12\r\n". One that begins otherwise is an error.
class NumberReplies final : public Replies {
 public:
  uint64_t take(std::span<const std::byte> received) override {
    uint64_t lines = 0;
    for (const std::byte byte : received) {
      if (at_begin_ && byte != std::byte{':'}) {
        throw std::runtime_error("Redis answered with something else than a number");
      }
      at_begin_ = byte == std::byte{'\n'};
      lines += at_begin_ ? 1 : 0;
    }
    return lines;
  }

 private:
  bool at_begin_ = true;  // of a line
};

Frames pipelines_of(const Redis& redis) {
  const load::Options options{.keys = redis.keys, .key_bytes = key_bytes};
  const auto planned = load::key_sequence(options, redis.batch);
  Frames frames{redis.batch};
  std::string key(key_bytes, '\0');
  for (size_t begin = 0; begin + redis.batch <= planned.size(); begin += redis.batch) {
    std::string pipeline;
    for (uint32_t i = 0; i < redis.batch; ++i) {
      load::write_key(planned[begin + i].key, key);
      pipeline += fmt::format("*2\r\n$4\r\nINCR\r\n${}\r\n{}\r\n", key.size(), key);
    }
    frames.append(std::as_bytes(std::span{pipeline}));
  }
  return frames;
}

// Each connection begins at another key, so that none repeats before all were asked.
std::vector<std::unique_ptr<load::Sender>> senders_of(
    const std::vector<io::FileDescriptor>& sockets, const Frames& frames, const Redis& redis) {
  std::vector<std::unique_ptr<load::Sender>> senders;
  for (size_t i = 0; i < sockets.size(); ++i) {
    make_nonblocking(sockets[i].get());
    senders.push_back(std::make_unique<PipelineSender>(
        sockets[i].get(), frames, i * frames.count() / sockets.size(), redis.window,
        std::make_unique<NumberReplies>()));
  }
  return senders;
}

nlohmann::ordered_json line_of(const Run& run, const Redis& redis, const Measured& measured) {
  const double pipelines_per_s = static_cast<double>(measured.frames) / measured.seconds;
  nlohmann::ordered_json line{{"limit", "redis"},
                              {"requests_per_s", std::round(pipelines_per_s * redis.batch)},
                              {"frames_per_s", std::round(pipelines_per_s)},
                              {"requests", measured.frames * redis.batch}};
  add_fields(line, measured, redis.rate);
  line["parameters"] = {{"connections", redis.connections},
                        {"batch", redis.batch},
                        {"window", redis.window},
                        {"keys", redis.keys},
                        {"key_bytes", key_bytes},
                        {"rate", redis.rate},
                        {"seconds", run.seconds}};
  return line;
}

std::string summary_of(const Redis& redis, const Measured& measured) {
  const double commands_per_s =
      static_cast<double>(measured.frames * redis.batch) / measured.seconds;
  std::string text = fmt::format(
      "  commands      {:.3f} M/s, {} in a pipeline, every reply read\n"
      "  client CPU    {}\n",
      commands_per_s * 1e-6, redis.batch, cpu_text(measured.client_cpu_s, measured.seconds));
  if (measured.server_cpu_s) {
    text += fmt::format("  server CPU    {}\n", cpu_text(*measured.server_cpu_s, measured.seconds));
  }
  return text + latency_lines(measured, redis.rate);
}

}  // namespace

Report run_redis(const Run& run, const Redis& redis) {
  if (redis.batch > redis.keys) throw std::invalid_argument("--batch may be --keys at most");
  std::optional<ServerTask> server;
  if (redis.server_pid) server = task_of_process(*redis.server_pid);
  std::vector<io::FileDescriptor> sockets;
  for (uint32_t i = 0; i < redis.connections; ++i) sockets.push_back(connect_to(redis.port));
  pin_if_asked(run.client_cpu);
  const Frames frames = pipelines_of(redis);
  load::Loop loop{senders_of(sockets, frames, redis), redis.rate, redis.batch};
  const Measured measured = measure(loop, run.seconds, server);
  return {.line = line_of(run, redis, measured), .summary = summary_of(redis, measured)};
}

}  // namespace sluice::limits_bench
