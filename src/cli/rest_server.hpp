// The flags of the commands that ask the REST port of a running server, and the address that they
// lead to.
// Flow:   --rest-address, --address, SLUICEGATE_REST_ADDRESS, SLUICEGATE_ADDRESS: the first that is
//         given -> rest_address() -> http_get().
// Errors: as of connect() where only a native port is given, which is asked for the REST one;
//         std::invalid_argument where an older server does not announce it.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice::cli {

struct RestServer {
  std::optional<std::string> rest_address;    // HOST:PORT of the REST port, where it was given
  std::optional<std::string> native_address;  // of the native port, as other commands take it
  uint32_t timeout_ms = 5'000;
};

// `names` of the option for the REST port, as CLI11 has them: "--rest-address".
void add_rest_server(CLI::App& command, RestServer& server, const std::string& names);

std::string rest_address(const RestServer& server);

}  // namespace sluice::cli
