// Times as Go writes them: RFC 3339 with up to nine digits behind the second, and an offset.
// Shape:  "2026-02-19T10:00:00.5+01:00", "2026-02-19T09:00:00Z"; zeros at the end are left out.
// Units:  nanoseconds since 1970, UTC; 0 to INT64_MAX (the year 2262).
// Errors: a complaint, complete but for the place.
#pragma once

#include <tl/expected.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::transfer {

// Empty: Go's zero time, 0001-01-01T00:00:00Z, which stands for no time.
using GoTime = tl::expected<std::optional<int64_t>, std::string_view>;

// What Go's UnixNano() makes of its zero time: the low 64 bits of what would be too long.
inline constexpr int64_t zero_time_unix_ns = -6'795'364'578'871'345'152;

GoTime parse_go_time(std::string_view text) noexcept;
GoTime go_time_of(int64_t unix_ns) noexcept;

// In UTC.
std::string go_time_text(std::optional<int64_t> wall_ns);

}  // namespace sluice::transfer
