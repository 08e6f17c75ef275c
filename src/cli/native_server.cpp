#include "cli/native_server.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "cli/between.hpp"
#include "text/quote.hpp"

namespace sluice::cli {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

void add_timeout(CLI::App& command, uint32_t& timeout_ms) {
  command.add_option("--timeout-millis", timeout_ms, "wait no longer for the server; 1 to 3600000")
      ->type_name("N")
      ->check(between(number_option("", "--timeout-millis")))
      ->capture_default_str();
}

void add_native_server(CLI::App& command, NativeServer& server) {
  server.address = variable(address_variable);
  if (server.address.empty()) server.address = "127.0.0.1:8081";
  command
      .add_option("--address", server.address,
                  std::string{"the server's native port, or those of several nodes\nwith commas "
                              "between: the first that answers is asked;\nenv "} +
                      address_variable)
      ->type_name("HOST:PORT")
      ->capture_default_str();
  add_timeout(command, server.timeout_ms);
}

void add_server_to_wait_for(CLI::App& command, NativeServer& server) {
  add_native_server(command, server);
  command.get_option("--timeout-millis")
      ->description("wait no longer for the server, after any wait in the queue; 1 to 3600000");
}

std::vector<sluicegate::Address> addresses_of(const NativeServer& server) {
  try {
    std::vector<sluicegate::Address> addresses;
    for (size_t begin = 0; begin <= server.address.size();) {
      const size_t end = std::min(server.address.find(',', begin), server.address.size());
      addresses.push_back(sluicegate::parse_address(server.address.substr(begin, end - begin)));
      begin = end + 1;
    }
    return addresses;
  } catch (const std::invalid_argument& error) {
    if (server.address != variable(address_variable)) throw;
    throw std::invalid_argument(std::string{error.what()} + " (environment variable " +
                                address_variable + ")");
  }
}

sluicegate::ConnectOptions connect_options(const NativeServer& server, const std::string& command) {
  const std::chrono::milliseconds timeout{server.timeout_ms};
  return {
      .client_name = "sluicegate-" + command, .connect_timeout = timeout, .call_timeout = timeout};
}

namespace {

sluicegate::ClientOptions client_options(const NativeServer& server, const std::string& command) {
  const std::chrono::milliseconds timeout{server.timeout_ms};
  sluicegate::ClientOptions options;
  options.client_name = "sluicegate-" + command;
  options.connect_timeout = timeout;
  options.call_timeout = timeout;
  return options;
}

}  // namespace

sluicegate::Client client_of(const NativeServer& server, const std::string& command) {
  if (addresses_of(server).size() > 1) return client_of_nodes(server, command);
  return sluicegate::Client{server.address, client_options(server, command)};
}

sluicegate::Client client_of_nodes(const NativeServer& server, const std::string& command) {
  std::vector<std::string> addresses;
  for (const sluicegate::Address& address : addresses_of(server)) {
    addresses.push_back(to_text(address));
  }
  return sluicegate::Client{addresses, client_options(server, command)};
}

std::unique_ptr<sluicegate::Connection> connect(const NativeServer& server,
                                                const std::string& command) {
  return ask_first(server, [&](const sluicegate::Address& at) {
    return std::make_unique<sluicegate::Connection>(at.host, at.port,
                                                    connect_options(server, command));
  });
}

void check_key(std::string_view key) {
  if (key.empty()) throw std::invalid_argument("the key is empty");
}

void check_key_size(const sluicegate::Connection& connection, std::string_view key) {
  const uint32_t most = connection.welcome().key_bytes_max;
  if (key.size() <= most) return;
  throw std::invalid_argument(fmt::format(
      "the key has {} bytes; the server allows {} (--max-key-bytes)", key.size(), most));
}

std::string printable(std::string_view key) {
  constexpr char rubout = 0x7F;  // slog, which this rule is from, does not quote it
  const bool quoted = text::needs_quotes(key) || key.find(rubout) != key.npos;
  return quoted ? text::in_quotes(key) : std::string{key};
}

}  // namespace sluice::cli
