// The numbers that options of subcommands take, as tables: whose option, and its bounds.
// Flow:   the commands check by them (between.hpp); number_options_test.cpp tries each option at
//         its bounds and beyond.
// Shape:  a row with "" for its command holds for each command with that option, unless the command
//         has a row of its own. check-config has the bounds of the server's flags.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>
#include <variant>

#include "base/limits.hpp"
#include "config/flag_table.hpp"

namespace sluice::cli {

template <typename Number>
struct OptionBounds {
  std::string_view command;
  std::string_view name;
  Number min;
  Number max;
};

using NumberOption = OptionBounds<uint64_t>;
using RealOption = OptionBounds<double>;

// The row of check-config that has the bounds of a server's flag.
consteval NumberOption server_flag(std::string_view name) {
  for (const config::Flag& flag : config::flag_table) {
    const auto* number = std::get_if<config::NumberFlag>(&flag.value);
    if (number == nullptr || flag.name() != name.substr(2)) continue;
    return {"check-config", name, static_cast<uint64_t>(number->min),
            static_cast<uint64_t>(number->max)};
  }
  throw std::invalid_argument("no such flag");
}

inline constexpr auto number_options = std::to_array<NumberOption>({
    {"", "--timeout-millis", 1, 3'600'000},
    {"", "--wait-limit-ms", 0, limits::wait_ms_max},

    {"acquire", "--cost", 0, limits::permits_max},
    {"acquire", "--count", 1, 4'096},
    {"acquire", "--max-requests", 1, limits::permits_max},
    {"acquire", "--max-requests-in-queue", 0, limits::queue_max},
    {"acquire", "--window-millis", limits::window_ms_min, limits::window_ms_max},
    {"release", "--cost", 1, limits::permits_max},
    {"debug", "--limit", 1, 1'000'000'000},
    {"ping", "--count", 1, 1'000'000},
    {"top", "--keys", 1, limits::top_keys_max},
    {"top", "--interval-millis", 100, 3'600'000},

    // Of quotas. In a frame the greatest number of 32 bits stands for "not given".
    {"", "--requests", 0, UINT32_MAX - 1},
    {"", "--input-tokens", 0, limits::amount_max},
    {"", "--cached-input-tokens", 0, limits::amount_max},
    {"", "--output-tokens", 0, limits::amount_max},
    {"", "--max-output-tokens", 0, limits::amount_max},
    {"", "--cost", 0, limits::amount_max},
    {"reserve", "--lifetime-ms", 0, limits::lifetime_ms_max},
    {"holders", "--limit", 1, 1'000'000'000},

    {"bench", "--shards", 1, limits::shards_max},
    {"bench", "--connections", 1, 65'536},
    {"bench", "--batch", 1, limits::frame_entries_max},
    {"bench", "--window", 1, 65'536},
    {"bench", "--keys", 1, 1'000'000'000},
    {"bench", "--new-keys", 0, 1'000'000'000},
    {"bench", "--key-bytes", 1, 65'535},
    {"bench", "--rate", 0, 1'000'000'000},

    server_flag("--max-requests"),
    server_flag("--max-requests-in-queue"),
    server_flag("--window-millis"),
    server_flag("--max-key-bytes"),
});

inline constexpr auto real_options = std::to_array<RealOption>({
    {"bench", "--denied-share", 0, 1},
    {"bench", "--seconds", 0.01, 86'400},
    {"bench", "--warm-up-seconds", 0, 3'600},
});

// The row of a command's option, or nullptr.
template <typename Number>
constexpr const OptionBounds<Number>* find_option(std::span<const OptionBounds<Number>> rows,
                                                  std::string_view command, std::string_view name) {
  const OptionBounds<Number>* common = nullptr;
  for (const OptionBounds<Number>& row : rows) {
    if (row.name != name) continue;
    if (row.command == command) return &row;
    if (row.command.empty()) common = &row;
  }
  return common;
}

// An option without a row does not compile.
consteval NumberOption number_option(std::string_view command, std::string_view name) {
  return *find_option<uint64_t>(number_options, command, name);
}

consteval RealOption real_option(std::string_view command, std::string_view name) {
  return *find_option<double>(real_options, command, name);
}

}  // namespace sluice::cli
