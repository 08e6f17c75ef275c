// Flags whose name ends in a unit of time take a time with a unit, too: --drain-millis 10s.
// Flow:   the command line or the environment -> in_unit_of() -> a bare number, as CLI11 reads it.
// Units:  -millis and -ms, -seconds; a bare number has the unit of the name.
// Errors: UsageError for what is neither a number nor a time, and for parts of a unit.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace sluice::config {

// For help texts, once in each.
inline constexpr std::string_view time_note =
    "A time may have a unit: 500us, 250ms, 10s, 2m, 1h. A bare number has that of its flag's "
    "name.\n";

bool is_time_flag(const CLI::Option& option);

// "10000" for "10s" of --drain-millis. A bare number, and the text of any other flag, as it is.
std::string in_unit_of(const CLI::Option& option, std::string text);

}  // namespace sluice::config
