// Quotes a value for people: in lines of the log, in complaints, on a terminal.
// Shape:  as Go's log/slog and strconv.Quote do; JSON has its own strings (text/json_string.hpp).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::text {

// Whether the value could be misread: it is empty, or has a blank, a quote, an equals sign, a
// character that does not print, or bytes that are not UTF-8.
bool needs_quotes(std::string_view text) noexcept;

// As Go's strconv.Quote: "a\nb", "\x01", "\u00a0", "\xff".
std::string in_quotes(std::string_view text);

// In quotes, and cut where it gets too long to read: for the names in complaints.
std::string quoted_excerpt(std::string_view text);

// At most `bytes_max` bytes of the text, in whole characters, with an ellipsis where it is cut.
std::string shortened(std::string_view text, size_t bytes_max);

}  // namespace sluice::text
