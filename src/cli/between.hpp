// Checks that the value of a flag is a number within bounds.
// Errors: CLI11's "--cost: " and then "must be 1 to 1000000000, not -1".
#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
#include <cstdint>
#include <string>

#include "base/limits.hpp"

namespace sluice::cli {

// "1 to 1000000000"
template <typename Number>
std::string bounds_text(Number min, Number max) {
  return CLI::detail::to_string(min) + " to " + CLI::detail::to_string(max);
}

template <typename Number>
CLI::Validator between(Number min, Number max) {
  const auto check = [min, max](const std::string& text) -> std::string {
    Number value;
    // CLI11 reads -1 as the greatest unsigned number.
    const bool is_negative = std::unsigned_integral<Number> && text.starts_with('-');
    const bool is_number = !is_negative && CLI::detail::lexical_cast(text, value);
    if (is_number && min <= value && value <= max) return {};
    return "must be " + bounds_text(min, max) + ", not " + text;
  };
  return {check, ""};  // without a word of its own in the help
}

// Of the requests of a quota call: the greatest number of 32 bits stands for "not given".
inline CLI::Validator requests_bounds() {
  return between(0U, UINT32_MAX - 1);
}

// Of its tokens and its cost.
inline CLI::Validator amount_bounds() {
  return between(uint64_t{0}, limits::amount_max);
}

}  // namespace sluice::cli
