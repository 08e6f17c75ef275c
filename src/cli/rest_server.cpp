#include "cli/rest_server.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <stdexcept>

#include "cli/native_server.hpp"

namespace sluice::cli {
namespace {

// The server's Welcome on the native port has the number of the REST port.
std::string rest_beside(const NativeServer& native) {
  return ask_first(native, [&](const sluicegate::Address& at) {
    const sluicegate::Connection connection{at.host, at.port, connect_options(native, "rest-port")};
    const uint16_t port = connection.welcome().rest_port;
    if (port == 0) {
      throw std::invalid_argument(
          fmt::format("this command asks the REST port, which the server at {} does not announce: "
                      "give it with --rest-address HOST:PORT",
                      to_text(at)));
    }
    return to_text(sluicegate::Address{at.host, port});
  });
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
                  "the server's native port, as for other commands, which\nannounces the REST "
                  "port [env SLUICEGATE_ADDRESS]")
      ->type_name("HOST:PORT");
  add_timeout(command, server.timeout_ms);
}

std::string rest_address(const RestServer& server) {
  if (server.rest_address) return *server.rest_address;
  if (server.native_address) return rest_beside({*server.native_address, server.timeout_ms});
  if (const std::string given = variable("SLUICEGATE_REST_ADDRESS"); !given.empty()) return given;
  const std::string given = variable(address_variable);
  if (!given.empty()) return rest_beside({given, server.timeout_ms});
  return "127.0.0.1:8080";
}

}  // namespace sluice::cli
