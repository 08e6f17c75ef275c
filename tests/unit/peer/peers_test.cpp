// Entries reach the other node and their answers the worker, in the worker's turns.
#include "peer/peers.hpp"

#include <gtest/gtest.h>

#include "tests/unit/peer/peers_fixture.hpp"

namespace sluice::peer {
namespace {

using api::Verdict;
using wire::ForwardRequest;

class PeersTest : public PeersFixture {};

TEST_F(PeersTest, know_how_many_lanes_lead_to_a_node) {
  EXPECT_EQ(Peers::lanes_from_others(1, 8), 0U);
  EXPECT_EQ(Peers::lanes_from_others(3, 8), 128U);
  EXPECT_EQ(Peers::lanes_from_others(3, 16), 512U);
  EXPECT_EQ(Peers::lanes_from_others(3, 32), 1'024U);
  EXPECT_EQ(Peers::lanes_from_others(3, 64), 1'024U);
  EXPECT_EQ(Peers::lanes_from_others(3, 96), 960U);
  EXPECT_EQ(Peers::lanes_from_others(200, 2), 398U);
}

TEST_F(PeersTest, an_entry_reaches_its_owner_and_its_answer_the_worker) {
  const uint32_t first = connect_ours();
  const std::string key = key_of_the_other();
  const uint32_t socket = first + target_of(key) - mailboxes_.nodes().first_target(1);
  sent_[socket].clear();
  send(key);
  turn();
  SentFrames frames;
  frames.feed(sent_[socket]);
  EXPECT_EQ(frames.body<ForwardRequest>().keys, key);
  Words words = verdicts_words(frames.id<ForwardRequest>(), {Verdict::approved});
  event(received_event(socket, std::as_writable_bytes(std::span(words))));
  turn();
  EXPECT_EQ(delivered_.verdicts(), std::vector{Verdict::approved});
  EXPECT_TRUE(mailboxes_.idle());
}

TEST_F(PeersTest, a_node_that_does_not_answer_is_known_as_such) {
  event(event_of(0, io::EventKind::failed, -ECONNREFUSED));
  turn();
  turn();
  EXPECT_TRUE(peers_.are_known());
  EXPECT_FALSE(peer().is_reachable());
  send(key_of_the_other());
  turn();
  turn();
  EXPECT_EQ(delivered_.verdicts(), std::vector{Verdict::owner_unreachable});
  EXPECT_TRUE(mailboxes_.idle());
}

TEST_F(PeersTest, answers_late_entries_by_the_clock) {
  const uint32_t first = connect_ours();
  send(key_of_the_other());
  turn();
  for (int64_t ms = 0; ms < 2'100; ms += 50) {
    for (const uint32_t socket : {first, first + 1}) {
      finish_send(socket);
      Words words = pong_words();
      event(received_event(socket, std::as_writable_bytes(std::span(words))));
    }
    if (ms < 1'950) EXPECT_TRUE(delivered_.answers.empty());
    turn(50);
  }
  turn();
  EXPECT_EQ(delivered_.verdicts(), std::vector{Verdict::owner_unreachable});
  EXPECT_TRUE(peer().is_reachable());
}

// What has been sent to a lane leaves, and the lane is closed in the same turn.
TEST_F(PeersTest, a_connection_may_end_in_the_turn_in_which_its_send_ends) {
  const uint32_t first = connect_ours();
  send(key_of_the_other());
  turn();
  for (const uint32_t socket : {first, first + 1}) {
    event(event_of(socket, io::EventKind::end_of_stream));
  }
  for (const uint32_t socket : {first, first + 1}) finish_send(socket);
  turn();
  turn();
  EXPECT_EQ(peer().counts().links_up, 0U);
}

// What the other node has sent meanwhile has still to be read.
TEST_F(PeersTest, time_in_which_this_node_stood_still_is_no_silence) {
  connect_ours();
  send(key_of_the_other());
  turn();
  now_ms_ += 60'000;
  turn();
  EXPECT_TRUE(peer().is_reachable());
  EXPECT_TRUE(delivered_.answers.empty());
  for (int64_t ms = 0; ms <= 900; ms += 50) turn(50);
  EXPECT_FALSE(peer().is_reachable());
  EXPECT_EQ(delivered_.verdicts(), std::vector{Verdict::owner_unreachable});
}

}  // namespace
}  // namespace sluice::peer
