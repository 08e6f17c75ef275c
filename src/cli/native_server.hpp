// The common part of the commands that ask a running server: its address, the time-out, and how a
// key is shown on a terminal.
// Flow:   flags -> NativeServer -> sluicegate::Connection.
// Errors: connect() throws as sluicegate::Connection does; main prints that in one line, exit 2.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sluicegate/client.hpp"
#include "sluicegate/connection.hpp"

namespace sluice::cli {

struct NativeServer {
  std::string address = "127.0.0.1:8081";
  uint32_t timeout_ms = 5'000;
};

void add_timeout(CLI::App& command, uint32_t& timeout_ms);

// --address and --timeout-millis.
void add_native_server(CLI::App& command, NativeServer& server);

// The server sees the client as "sluicegate-COMMAND".
sluicegate::ConnectOptions connect_options(const NativeServer& server, const std::string& command);
sluicegate::ClientOptions client_options(const NativeServer& server, const std::string& command);
std::unique_ptr<sluicegate::Connection> connect(const NativeServer& server,
                                                const std::string& command);

// The key as it is, or in quotes with escapes where it has blanks, quotes, bytes that are no UTF-8,
// or anything else that a terminal would not just show.
std::string printable(std::string_view key);

}  // namespace sluice::cli
