// The step in front of CLI11: the command line as Go's pflag reads it, in the forms CLI11 knows.
// Flow:   argv -> normalise() -> CLI::App::parse().
// Shape:  "-r=false", "-m=7", "-m7", "-rm7", "--flag=F" become "--requests-can-set-rate=false",
//         "--max-requests", "7", ...; a switch never takes the next word as its value. A time with
//         a unit becomes the number of its flag's unit (time_flag.hpp).
// Errors: UsageError with pflag's text: unknown flag, missing value, bad word, stray argument. It
//         names the flag or the command that is nearest.
// Lives:  before the server starts; may throw and allocate.
// Source: github.com/spf13/pflag, flag.go; Go's strconv.ParseBool and ParseInt (base 0).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::config {

// The error in the command line, in one sentence that follows "Error: ".
class UsageError : public CLI::ParseError {
 public:
  explicit UsageError(std::string text) : ParseError("UsageError", std::move(text), 1) {}

  const CLI::App* command = nullptr;  // the command that was misused, where that is known
};

// 7, -7, 0x10, 0o17, 017, 0b1, 1_000_000. Nothing for what is not a whole number. Beyond the range
// of int64_t it stays at the range's end, so that it fails the flag's own bounds.
std::optional<int64_t> parse_integer(std::string_view text);

// "-m, --max-requests", as errors and help call it.
std::string flag_title(const CLI::Option& option);

// True for a flag that stands alone: `--flag`, or `--flag=word`.
bool is_switch(const CLI::Option& option);

// A bad value of the flag of that title, in pflag's words.
UsageError invalid_argument(std::string_view title, std::string_view value,
                            std::string_view reason);

// The arguments behind the program's name, as CLI11 reads them. Descends into subcommands of `app`
// and passes their positional arguments on. A call for help stands alone, so that it is answered
// whatever the other values are.
std::vector<std::string> normalise(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace sluice::config
