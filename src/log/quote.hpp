// Values in lines of text: as Go's log/slog quotes them, and of what length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::log {

// Whether the value could be misread: it is empty, or has a blank, a quote, an equals sign, a
// character that does not print, or bytes that are no UTF-8.
bool needs_quotes(std::string_view text) noexcept;

// As Go's strconv.Quote: "a\nb", "\x01", "\u00a0", "\xff".
std::string in_quotes(std::string_view text);

// At most so many bytes of it, whole characters, with an ellipsis where there are more.
std::string shortened(std::string_view text, size_t bytes_max);

}  // namespace sluice::log
