// Lengths of time as people write them: 250ms, 10s, 2m, 1h.
// Shape:  a whole number and a unit, without a blank between them.
// Errors: std::nullopt for any other text, and for what does not fit into 64 bits of nanoseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::text {

// In nanoseconds. The units are us, ms, s, m, h and d; a number alone is no duration.
std::optional<int64_t> parse_duration(std::string_view text) noexcept;

// In the longest unit that divides it: "2m", "90s".
std::string duration_text(uint64_t duration_ms);

}  // namespace sluice::text
