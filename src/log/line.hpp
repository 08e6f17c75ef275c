// One event as a line of text, but for its time, which is put in front when it is written.
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

// In the order they are told; objects may be nested.
using Fields = text::Json;

// What JSON has no type for, as a field of this format: JSON has an object, nanoseconds and a time
// to the nanosecond, the others Go's `map[a:1 b:two]`, `1.5ms` and a time to the millisecond.
Fields map_value(Format format, const Fields& pairs);
Fields duration_value(Format format, int64_t ns);
Fields time_value(Format format, int64_t wall_ns);

// Which line of code speaks: std::source_location, which clang 14 lacks.
struct Source {
  const char* file;
  const char* function;
  uint32_t line;

  // As a default argument: where the function that has it is called.
  static constexpr Source here(const char* file = __builtin_FILE(),
                               const char* function = __builtin_FUNCTION(),
                               uint32_t line = __builtin_LINE()) noexcept {
    return {.file = file, .function = function, .line = line};
  }
};

// `source` null: the line does not tell it.
std::string make_line(Format format, Level level, std::string_view message, const Fields& fields,
                      const Source* source);

}  // namespace sluice::log
