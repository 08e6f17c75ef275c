// One event as a line of text, but for its time, which is put in front when it is written.
// Shape:  json            ,"level":"INFO","source":{...},"message":"...",FIELDS}
//         text            level=INFO source=FILE:LINE message="..." a.b=value
//         system_default  INFO the message a.b=value
//         as Go's log/slog has them. Bytes that are not UTF-8 show as U+FFFD.
#pragma once

#include <nlohmann/json.hpp>
#include <source_location>
#include <string>
#include <string_view>

#include "log/level.hpp"

namespace sluice::log {

// In the order they are told; objects may be nested.
using Fields = nlohmann::ordered_json;

// `source` null: the line does not tell it.
std::string make_line(Format format, Level level, std::string_view message, const Fields& fields,
                      const std::source_location* source);

}  // namespace sluice::log
