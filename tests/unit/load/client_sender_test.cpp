// Goal: the answer to each frame is counted, and one that no frame asked for ends the run.
// Method: one connection to a scripted server; the test calls the sender by hand.
#include "load/client_sender.hpp"

#include <gtest/gtest.h>

#include "sender_fixture.hpp"

namespace sluice::load::test {
namespace {

// The counters after the server's `answer` to the only frame; its id is 1.
Counters counters_after(const std::string& answer) {
  const FakeServer server{FakeServer::welcoming([&](Peer& peer) {
    peer.read();
    peer.write(answer);
    peer.at_end();
  })};
  sluicegate::Connection connection{"127.0.0.1", server.port(), {}};
  const Options options = options_of(100);
  Stream stream{key_sequence(options, 1), batch};
  ClientSender sender{connection, stream, nullptr, options};
  Counters counters;
  ask_once(sender, counters);
  EXPECT_EQ(sender.frames_in_flight(), 0u);
  return counters;
}

TEST(ClientSender, counts_verdicts_and_refused_frames) {
  EXPECT_EQ(counters_after(approvals(1)).verdicts.count(sluicegate::Verdict::approved), batch);
  const Counters refused = counters_after(
      sluicegate::test::error(1, sluicegate::test::schema::ErrorCode::BAD_COST, "too much"));
  EXPECT_EQ(refused.verdicts.refusals(), 1u);
  EXPECT_EQ(refused.verdicts.refusal_text(), "too much");
  EXPECT_EQ(refused.latency.count(), 1u);
}

TEST(ClientSender, ends_where_the_server_shuts_down_or_refuses_the_connection) {
  EXPECT_THROW(counters_after(go_away()), sluicegate::ConnectionLost);
  EXPECT_THROW(counters_after(sluicegate::test::error(
                   0, sluicegate::test::schema::ErrorCode::TOO_MANY_OUTSTANDING, "")),
               sluicegate::Refused);
}

TEST(ClientSender, ends_at_an_answer_to_no_frame_or_of_another_kind_or_size) {
  EXPECT_THROW(counters_after(approvals(2)), sluicegate::ProtocolError);
  EXPECT_THROW(counters_after(approvals(1, batch - 1)), sluicegate::ProtocolError);
  EXPECT_THROW(counters_after(sluicegate::test::answer(1, [](auto frame) { frame.setDone(); })),
               sluicegate::ProtocolError);
}

}  // namespace
}  // namespace sluice::load::test
