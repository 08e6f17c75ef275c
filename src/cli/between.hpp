// Checks that the value of an option is a number within the bounds of its row (number_options.hpp).
// Errors: CLI11's "--cost: " and then "must be 1 to 1000000000, not -1".
#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
#include <string>

#include "cli/number_options.hpp"

namespace sluice::cli {

// "1 to 1000000000"
template <typename Number>
std::string bounds_text(const OptionBounds<Number>& option) {
  return CLI::detail::to_string(option.min) + " to " + CLI::detail::to_string(option.max);
}

template <typename Number>
CLI::Validator between(const OptionBounds<Number>& option) {
  const auto check = [option](const std::string& text) -> std::string {
    Number value;
    // CLI11 reads -1 as the greatest unsigned number.
    const bool is_negative = std::unsigned_integral<Number> && text.starts_with('-');
    const bool is_number = !is_negative && CLI::detail::lexical_cast(text, value);
    if (is_number && option.min <= value && value <= option.max) return {};
    return "must be " + bounds_text(option) + ", not " + text;
  };
  return {check, ""};  // without a word of its own in the help
}

}  // namespace sluice::cli
