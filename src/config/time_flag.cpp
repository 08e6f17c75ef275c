#include "config/time_flag.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "config/pflag.hpp"
#include "text/duration.hpp"

namespace sluice::config {
namespace {

struct Unit {
  std::string_view suffix;
  int64_t ns;
  std::string_view plural;
};

constexpr int64_t second_ns = 1'000'000'000;
constexpr std::array<Unit, 3> units{{{"-millis", second_ns / 1'000, "milliseconds"},
                                     {"-ms", second_ns / 1'000, "milliseconds"},
                                     {"-seconds", second_ns, "seconds"}}};

const Unit* unit_of(const CLI::Option& option) {
  if (option.get_lnames().empty()) return nullptr;
  const std::string name = "-" + option.get_lnames().front();
  const auto unit =
      std::ranges::find_if(units, [&](const Unit& each) { return name.ends_with(each.suffix); });
  return unit == units.end() ? nullptr : unit;
}

// Flags in seconds take fractions: "0.25".
std::string seconds_text(int64_t time_ns) {
  std::string text = std::to_string(second_ns + time_ns % second_ns);
  text.front() = '.';
  text.resize(text.find_last_not_of('0') + 1);
  return std::to_string(time_ns / second_ns) + (text == "." ? "" : text);
}

}  // namespace

bool is_time_flag(const CLI::Option& option) {
  return unit_of(option) != nullptr;
}

std::string in_unit_of(const CLI::Option& option, std::string text) {
  const Unit* unit = unit_of(option);
  if (unit == nullptr) return text;
  const bool takes_fractions = unit->ns == second_ns;
  const std::optional<int64_t> time_ns = text::parse_duration(text);
  if (!time_ns) {
    if (takes_fractions || parse_integer(text)) return text;
    throw invalid_argument(flag_title(option), text,
                           "a whole number is expected, or a time such as 250ms or 10s");
  }
  if (takes_fractions) return seconds_text(*time_ns);
  if (*time_ns % unit->ns == 0) return std::to_string(*time_ns / unit->ns);
  throw invalid_argument(flag_title(option), text,
                         "whole " + std::string{unit->plural} + " are expected");
}

}  // namespace sluice::config
