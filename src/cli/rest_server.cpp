#include "cli/rest_server.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <stdexcept>

#include "cli/native_server.hpp"
#include "sluicegate/address.hpp"

namespace sluice::cli {
namespace {

constexpr uint16_t default_native_port = 8'081;
constexpr const char* default_rest_port = "8080";

// `source` names the flag or variable that the native address is from.
std::string rest_beside(const std::string& native_address, const std::string& source) {
  if (sluicegate::parse_address(native_address).port == default_native_port) {
    return native_address.substr(0, native_address.rfind(':') + 1) + default_rest_port;
  }
  throw std::invalid_argument(
      fmt::format("this command asks the REST port, and {} {} has the native one: give the REST "
                  "port with --rest-address HOST:PORT",
                  source, native_address));
}

}  // namespace

void add_rest_server(CLI::App& command, RestServer& server, const std::string& names) {
  command
      .add_option(names, server.rest_address,
                  "the server's REST port, as HOST:PORT\n[default 127.0.0.1:8080; env "
                  "SLUICEGATE_REST_ADDRESS]")
      ->type_name("HOST:PORT");
  command
      .add_option("--address", server.native_address,
                  "the server's native port, as for other commands:\nwhere it is 8081, the REST "
                  "port is 8080\n[env SLUICEGATE_ADDRESS]")
      ->type_name("HOST:PORT");
  add_timeout(command, server.timeout_ms);
}

std::string rest_address(const RestServer& server) {
  if (server.rest_address) return *server.rest_address;
  if (server.native_address) return rest_beside(*server.native_address, "--address");
  if (const std::string given = variable("SLUICEGATE_REST_ADDRESS"); !given.empty()) return given;
  const std::string given = variable(address_variable);
  if (!given.empty()) return rest_beside(given, address_variable);
  return std::string{"127.0.0.1:"} + default_rest_port;
}

}  // namespace sluice::cli
