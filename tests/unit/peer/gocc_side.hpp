// A gocc at the other end of a FakeIo's socket.
#pragma once

#include <string>

#include "peer/context.hpp"
#include "tests/support/fake_io.hpp"
#include "tests/support/http2_server.hpp"
#include "tests/unit/peer/peer_fixture.hpp"

namespace sluice::peer {

struct GoccSide {
  explicit GoccSide(uint32_t with_socket) : socket(with_socket) {}

  const uint32_t socket;
  support::Http2Server http;
  size_t read = 0;  // of what the FakeIo has sent
};

// Both ends send until neither has anything to say. `on_event` is the node's.
template <typename OnEvent>
void exchange_with(GoccSide& gocc, support::FakeIo& io, Context& context, OnEvent on_event) {
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    context.flush();
    for (; gocc.read < io.sent.size(); ++gocc.read) {
      if (io.sent_by[gocc.read] != gocc.socket) continue;
      const std::string bytes = io.sent[gocc.read];
      gocc.http.receive(bytes);
      on_event(event_of(gocc.socket, io::EventKind::sent, static_cast<int32_t>(bytes.size())));
      goes_on = true;
    }
    std::string answer = gocc.http.output();
    if (answer.empty()) continue;
    on_event(received_event(gocc.socket, std::as_writable_bytes(std::span(answer))));
    goes_on = true;
  }
}

}  // namespace sluice::peer
