// The server's log: the thread of the event builds the line, the log's own thread writes it.
// Flow:   wants() -> write() -> a bounded queue -> stdout (json, text) or stderr (system_default).
// Shape:  line.hpp; times are UTC.
// Errors: write() never waits: when the reader of the log is slow, new lines overwrite the oldest
//         ones in the queue. lines_lost() counts these, and those that the system does not take.
// Lives:  one per process: start() before there are other threads. Before it wants() is false;
//         lines written after stop() are dropped.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "log/line.hpp"

namespace sluice::log {

inline constexpr uint32_t queue_lines_max = 8'192;

struct Options {
  Format format = Format::json;
  Level level = Level::info;
  bool includes_source = true;
  std::FILE* stream = nullptr;  // instead of stdout or stderr; for tests
};

void start(const Options& options);

// Writes the queued lines; false when that takes longer than `timeout` (the log's reader does not
// read): then the thread still hangs in its write, and only _Exit() ends the process.
bool stop(std::chrono::milliseconds timeout);

bool wants(Level level) noexcept;
Format format() noexcept;

void write(Level level, std::string_view message, const Fields& fields = Fields::object(),
           Source source = Source::here()) noexcept;

uint64_t lines_lost() noexcept;

inline void info(std::string_view message, const Fields& fields = Fields::object(),
                 Source source = Source::here()) noexcept {
  write(Level::info, message, fields, source);
}
inline void warning(std::string_view message, const Fields& fields = Fields::object(),
                    Source source = Source::here()) noexcept {
  write(Level::warning, message, fields, source);
}
inline void error(std::string_view message, const Fields& fields = Fields::object(),
                  Source source = Source::here()) noexcept {
  write(Level::error, message, fields, source);
}

}  // namespace sluice::log
