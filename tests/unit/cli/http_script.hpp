// A scripted HTTP server's answer to one GET.
#pragma once

#include <string>

#include "tests/unit/client/fake_server.hpp"

namespace sluice::cli::test {

// Answers 200 with the body to a request that begins with `wanted`; closes on another.
inline sluicegate::test::FakeServer::Script answering(const std::string& wanted,
                                                      const std::string& body) {
  return [wanted, body](sluicegate::test::Peer& peer) {
    if (!peer.read_until("\r\n\r\n").starts_with(wanted)) return;
    peer.write("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
               body);
  };
}

}  // namespace sluice::cli::test
