// The server's log: one line of JSON per event on stdout, as gocc's default.
// Shape:  {"time":"2026-01-31T12:00:00.000Z","level":"INFO","message":"...", fields...}; UTC.
// Lives:  start and stop only; workers do not log.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::server {

using LogFields = nlohmann::ordered_json;

void log_info(const std::string& message, const LogFields& fields = LogFields::object());
void log_warning(const std::string& message, const LogFields& fields = LogFields::object());
void log_error(const std::string& message, const LogFields& fields = LogFields::object());

}  // namespace sluice::server
