#include "log/log.hpp"

#include <spdlog/async.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <stdio_ext.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace sluice::log {
namespace {

using Pool = spdlog::details::thread_pool;

// Written by start() only, while there are no other threads.
struct Log {
  Options options;
  std::weak_ptr<Pool> pool;
  std::shared_ptr<spdlog::async_logger> logger;
};

// The number of lines that the system did not take.
std::atomic<uint64_t> unwritten{0};

Log& the_log() noexcept {
  static Log log;
  return log;
}

// Only start() and stop() use it. Lines that are written without a pool are dropped.
std::shared_ptr<Pool>& the_pool() noexcept {
  static std::shared_ptr<Pool> pool;
  return pool;
}

// Only the pool's thread uses it. It counts the lines that it cannot write: there is no other place
// to report them.
class StreamSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit StreamSink(std::FILE* stream) : stream_(stream) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    if (torn_) line.push_back('\n');
    formatter_->format(message, line);
    const size_t written = std::fwrite(line.data(), 1, line.size(), stream_);
    torn_ = std::fflush(stream_) != 0 || written < line.size();
    if (!torn_) return;
    std::clearerr(stream_);
    ::__fpurge(stream_);  // else stdio would write it again with the next line
    unwritten.fetch_add(1, std::memory_order_relaxed);
  }
  void flush_() override {}

  std::FILE* stream_;
  bool torn_ = false;  // the last write failed, perhaps in the middle of a line
};

std::FILE* stream_of(const Options& options) noexcept {
  if (options.stream != nullptr) return options.stream;
  return options.format == Format::system_default ? stderr : stdout;
}

// The text in front of a line, and behind it.
const char* pattern_of(Format format) noexcept {
  switch (format) {
    case Format::json:
      return R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ"%v)";
    case Format::text:
      return "time=%Y-%m-%dT%H:%M:%S.%eZ %v";
    case Format::system_default:
      break;
  }
  return "%Y/%m/%d %H:%M:%S %v";
}

spdlog::level::level_enum spdlog_level(Level level) noexcept {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

void start(const Options& options) {
  Log& log = the_log();
  unwritten.store(0, std::memory_order_relaxed);
  auto sink = std::make_shared<StreamSink>(stream_of(options));
  sink->set_formatter(std::make_unique<spdlog::pattern_formatter>(pattern_of(options.format),
                                                                  spdlog::pattern_time_type::utc));
  auto pool = std::make_shared<Pool>(queue_lines_max, 1);
  auto logger = std::make_shared<spdlog::async_logger>(
      "sluicegate", std::move(sink), pool, spdlog::async_overflow_policy::overrun_oldest);
  logger->set_level(spdlog_level(options.level));
  log = {.options = options, .pool = pool, .logger = std::move(logger)};
  the_pool() = std::move(pool);
}

bool stop(std::chrono::milliseconds timeout) {
  std::shared_ptr<Pool> pool = std::exchange(the_pool(), nullptr);
  if (pool == nullptr) return true;
  std::promise<void> written;
  std::future<void> done = written.get_future();
  // The pool's destructor waits until its queue is empty.
  std::thread closer([pool = std::move(pool), written = std::move(written)]() mutable {
    pool.reset();
    written.set_value();
  });
  const bool in_time = done.wait_for(timeout) == std::future_status::ready;
  in_time ? closer.join() : closer.detach();
  return in_time;
}

bool wants(Level level) noexcept {
  const Log& log = the_log();
  return log.logger != nullptr && level >= log.options.level;
}

Format format() noexcept {
  return the_log().options.format;
}

void write(Level level, std::string_view message, const Fields& fields, Source source) noexcept {
  if (!wants(level)) return;
  const Log& log = the_log();
  const std::shared_ptr<Pool> pool = log.pool.lock();
  if (pool == nullptr) return;
  const std::string line = make_line(log.options.format, level, message, fields,
                                     log.options.includes_source ? &source : nullptr);
  log.logger->log(spdlog_level(level), spdlog::string_view_t(line));
}

uint64_t lines_lost() noexcept {
  const std::shared_ptr<Pool> pool = the_log().pool.lock();
  const uint64_t overrun = pool != nullptr ? pool->overrun_counter() : 0;
  return overrun + unwritten.load(std::memory_order_relaxed);
}

}  // namespace sluice::log
