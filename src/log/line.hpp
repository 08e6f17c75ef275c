// One event as a line of text without its time, which the log puts in front when it writes the
// line.
// Shape:  json            ,"level":"INFO","source":{...},"message":"...",FIELDS}
//         text            level=INFO source=FILE:LINE message="..." a.b=value
//         system_default  INFO the message a.b=value
//         as Go's log/slog has them. Bytes that are not UTF-8 show as \ufffd, in text as \xff.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "log/level.hpp"
#include "text/json.hpp"

namespace sluice::log {

// In the order in which they are added; objects may be nested.
using Fields = text::Json;

// Values that JSON has no type for, as a field of this format: in JSON an object, nanoseconds and a
// time to the nanosecond; in the others Go's `map[a:1 b:two]`, `1.5ms` and a time to the
// millisecond.
Fields map_value(Format format, const Fields& pairs);
Fields duration_value(Format format, int64_t ns);
Fields time_value(Format format, int64_t wall_ns);

// The line of code that logs: std::source_location, which clang 14 lacks.
struct Source {
  const char* file;
  const char* function;
  uint32_t line;

  // As a default argument of a function: the place where that function is called.
  static constexpr Source here(const char* file = __builtin_FILE(),
                               const char* function = __builtin_FUNCTION(),
                               uint32_t line = __builtin_LINE()) noexcept {
    return {.file = file, .function = function, .line = line};
  }
};

// With a null `source` the line has none.
std::string make_line(Format format, Level level, std::string_view message, const Fields& fields,
                      const Source* source);

}  // namespace sluice::log
