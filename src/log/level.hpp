// The level and the format of the log.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::log {

enum class Level : uint8_t { debug, info, warning, error };
enum class Format : uint8_t { json, text, system_default };

// As in log lines and in --log-level: "DEBUG", "INFO", "WARN", "ERROR".
constexpr std::string_view level_name(Level level) noexcept {
  constexpr std::string_view names[] = {"DEBUG", "INFO", "WARN", "ERROR"};
  return names[static_cast<uint8_t>(level)];
}

}  // namespace sluice::log
