// A sender of the load tool and the scripted server that it is connected to.
// Shape:  frames of eight entries over one connection; the test calls the sender itself.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "load/counters.hpp"
#include "load/key_sequence.hpp"
#include "load/sender.hpp"
#include "sluicegate/connection.hpp"
#include "tests/unit/client/fake_server.hpp"

namespace sluice::load::test {

using sluicegate::test::FakeServer;
using sluicegate::test::Peer;

inline constexpr uint32_t batch = 8;

inline Options options_of(uint32_t keys) {
  return {.batch = batch, .window = 4, .keys = keys};
}

inline std::string approvals(uint64_t id, unsigned count = batch) {
  return sluicegate::test::verdicts(id, count, {1});
}

inline std::string go_away() {
  return sluicegate::test::answer(0, [](auto frame) { frame.initGoAway(); });
}

// Waits until bytes, or the end, have arrived at the sender's socket.
inline void await_input(const Sender& sender) {
  pollfd watched{.fd = sender.native_handle(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&watched, 1, 30'000), 1);
}

// Sends a frame and takes what the server answers to it.
inline void ask_once(Sender& sender, Counters& counters) {
  ASSERT_EQ(sender.ask(1), batch);
  ASSERT_TRUE(sender.flush());
  await_input(sender);
  sender.take_answers(counters);
}

}  // namespace sluice::load::test
