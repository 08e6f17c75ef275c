// The common part of the commands that ask a running server: its address, the time-out, and how a
// key is shown on a terminal.
// Flow:   flags -> NativeServer -> sluicegate::Connection or Client.
// Shape:  several addresses are those of nodes that share their keys. A command asks the first one
//         that answers, whose server forwards.
// Errors: connect() throws as sluicegate::Connection does; main prints that in one line, exit 2.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluicegate/address.hpp"
#include "sluicegate/client.hpp"
#include "sluicegate/connection.hpp"
#include "sluicegate/error.hpp"

namespace sluice::cli {

inline constexpr const char* address_variable = "SLUICEGATE_ADDRESS";

// The environment variable's text; empty when it is not set.
std::string variable(const char* name);

struct NativeServer {
  std::string address;  // or several, with commas between them
  uint32_t timeout_ms = 5'000;
};

void add_timeout(CLI::App& command, uint32_t& timeout_ms);

// --address, which has the environment variable for its default, and --timeout-millis.
void add_native_server(CLI::App& command, NativeServer& server);
// The same where the call may wait in a queue: the client's time-out begins after that.
void add_server_to_wait_for(CLI::App& command, NativeServer& server);

// Errors: std::invalid_argument, which names the variable if the address is from there.
std::vector<sluicegate::Address> addresses_of(const NativeServer& server);

// What `ask` returns for the first address that does not throw ConnectionLost or TimedOut.
// Errors: those of the last one.
template <typename Ask>
auto ask_first(const NativeServer& server, const Ask& ask) {
  const std::vector<sluicegate::Address> addresses = addresses_of(server);
  for (size_t i = 0; i + 1 < addresses.size(); ++i) {
    try {
      return ask(addresses[i]);
    } catch (const sluicegate::ConnectionLost&) {
    } catch (const sluicegate::TimedOut&) {
    }
  }
  return ask(addresses.back());
}

// The server sees the client as "sluicegate-COMMAND".
sluicegate::ConnectOptions connect_options(const NativeServer& server, const std::string& command);
sluicegate::Client client_of(const NativeServer& server, const std::string& command);
// One that goes to the node that has a key, also if there is one address alone.
sluicegate::Client client_of_nodes(const NativeServer& server, const std::string& command);
std::unique_ptr<sluicegate::Connection> connect(const NativeServer& server,
                                                const std::string& command);

// Errors: std::invalid_argument. The second one is for a server that is connected.
void check_key(std::string_view key);
void check_key_size(const sluicegate::Connection& connection, std::string_view key);

// The key as it is, or in quotes with escapes where it has blanks, quotes, bytes that are no UTF-8,
// or anything else that a terminal would not just show.
std::string printable(std::string_view key);

}  // namespace sluice::cli
