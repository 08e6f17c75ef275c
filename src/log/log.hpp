// The server's log: a line is built where the event happens and written by a thread of its own.
// Flow:   wants() -> write() -> a bounded queue -> stdout (json, text) or stderr (system_default).
// Shape:  line.hpp; times are UTC.
// Errors: nobody waits for the log: when its reader is slow the oldest lines in the queue are
//         overrun. lines_lost() counts them, and those that the system does not take.
// Lives:  one per process: start() before there are other threads. Without it nothing is wanted;
//         what is written after stop() is thrown away.
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
  std::FILE* stream = nullptr;  // where to instead of stdout or stderr; for tests
};

void start(const Options& options);

// Writes what is queued; false when that takes longer than `timeout` (a reader that does not read):
// then the thread still hangs in its write, and only _Exit() ends the process.
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
