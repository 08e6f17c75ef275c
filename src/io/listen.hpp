// Sockets that listen, with the options that accepted sockets inherit.
// Flow:   --bind, --port -> listen_on() -> Options::listeners -> Io.
// Units:  sockets: one per worker that accepts.
// Errors: std::system_error with a text that names the cause and the cure in one line.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "io/file_descriptor.hpp"

namespace sluice::io {

struct ListenOptions {
  std::string_view address;                 // IPv4 or IPv6; empty: all interfaces, both families
  uint16_t port = 0;                        // 0: a free one
  uint32_t sockets = 1;                     // several share the port: the kernel spreads clients
  std::string_view port_option = "--port";  // named in errors
  // How long to try again while the port is in use.
  std::chrono::milliseconds patience{0};
};

struct Listening {
  std::vector<FileDescriptor> sockets;
  uint16_t port = 0;  // the one in use
};

// Fails when any process listens on the port already, another Sluicegate included.
Listening listen_on(const ListenOptions& options);

}  // namespace sluice::io
