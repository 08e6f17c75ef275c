// Goal:   the greatest times that the flags about peers take last their whole life: to the last
//         millisecond that a tick can see, and no longer.
// Method: a lane, and all that a worker has for the other node, with a clock of the test's own.
#include <gtest/gtest.h>

#include "tests/support/greatest_flag.hpp"
#include "tests/unit/peer/lane_fixture.hpp"
#include "tests/unit/peer/peers_fixture.hpp"

namespace sluice::peer {
namespace {

using api::Verdict;

const int64_t timeout_ms = test::greatest("peer-timeout-millis");
const int64_t silence_ms = test::greatest("peer-silence-millis");

FleetOptions patient(FleetOptions options) {
  options.timeout_ms = timeout_ms;
  options.silence_ms = silence_ms;
  return options;
}

class LongestSilence : public LaneFixture {
 protected:
  LongestSilence() : LaneFixture(patient(fleet())) {}
};

TEST_F(LongestSilence, of_an_owner_that_owes_an_answer) {
  greet();
  send(target_, std::vector<std::string>{"key"});
  for (int64_t ms = 50; ms < silence_ms; ms += 50) {
    pass(50);
    sent();
  }
  pass(49);
  EXPECT_EQ(lane_->state(), Lane::State::open);
  pass(1);
  EXPECT_EQ(lane_->state(), Lane::State::lost);
  EXPECT_EQ(lane_->why_lost(), "silent");
}

class LongestAnswer : public PeersFixture {
 protected:
  LongestAnswer() : PeersFixture(patient(fleet(base::PeerFailure::error))) {}

  // The other node goes on answering pings.
  void pass(int64_t ms, uint32_t first_socket) {
    for (; ms > 0; ms -= Peers::tick_ms) {
      for (const uint32_t socket : {first_socket, first_socket + 1}) {
        Words pong = pong_words();
        event(received_event(socket, std::as_writable_bytes(std::span(pong))));
        finish_send(socket);
      }
      turn(std::min(ms, Peers::tick_ms));
    }
  }
};

TEST_F(LongestAnswer, is_waited_for) {
  const uint32_t first = connect_ours();
  send(key_of_the_other());
  turn();
  pass(timeout_ms - Peers::tick_ms, first);
  EXPECT_TRUE(delivered_.answers.empty());
  pass(3 * Peers::tick_ms, first);
  EXPECT_EQ(delivered_.verdicts(), std::vector{Verdict::owner_unreachable});
  EXPECT_TRUE(peer().is_reachable());
}

TEST_F(LongestAnswer, of_a_probed_node_is_waited_for) {
  event(event_of(last_socket(), io::EventKind::connected));
  for (int64_t ms = 0; ms < silence_ms - 2 * Peers::tick_ms; ms += Peers::tick_ms) {
    turn(Peers::tick_ms);
  }
  EXPECT_TRUE(io_.closed.empty());
  for (int ticks = 0; ticks < 4; ++ticks) turn(Peers::tick_ms);
  EXPECT_EQ(io_.closed.size(), 1U) << "the probe has ended";
}

}  // namespace
}  // namespace sluice::peer
