// Goal: frames go out in order and once, however slowly the socket takes them, and every answer
// belongs to one in flight. Method: connections to a scripted server; the test calls the senders by
// hand.
#include "load/replay_sender.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <future>

#include "sender_fixture.hpp"

namespace sluice::load::test {
namespace {

struct Frames {
  explicit Frames(const Options& options)
      : stream{key_sequence(options, 1), options.batch}, replay{stream, {options, stream}} {}
  Stream stream;
  Replay replay;
};

sluicegate::Connection connect(const FakeServer& server) {
  return {"127.0.0.1", server.port(), {}};
}

// Takes the server's answer `answer` to the only frame, whose id is 1.
void take(const std::string& answer) {
  const FakeServer server{FakeServer::welcoming([&](Peer& peer) {
    peer.read();
    peer.write(answer);
    peer.at_end();
  })};
  const sluicegate::Connection connection = connect(server);
  Frames frames{options_of(100)};
  ReplaySender sender{connection, frames.replay, 4};
  Counters counters;
  ask_once(sender, counters);
}

TEST(ReplaySender, ends_at_an_answer_to_no_frame_or_of_another_size) {
  EXPECT_NO_THROW(take(approvals(1)));
  EXPECT_THROW(take(approvals(2)), sluicegate::ProtocolError);
  EXPECT_THROW(take(approvals(4'711)), sluicegate::ProtocolError);
  EXPECT_THROW(take(approvals(1, batch - 1)), sluicegate::ProtocolError);
}

TEST(ReplaySender, holds_a_frame_back_while_another_connection_waits_for_its_answer) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  const FakeServer server{FakeServer::welcoming([released](Peer& peer) {
                            const uint64_t id = peer.read().getId();
                            if (id == 1) released.wait();
                            peer.write(approvals(id));
                            peer.at_end();
                          }),
                          2};
  const sluicegate::Connection slow = connect(server);
  const sluicegate::Connection quick = connect(server);
  Frames frames{options_of(2 * batch)};  // two frames
  ReplaySender first{slow, frames.replay, 4};
  ReplaySender second{quick, frames.replay, 4};
  Counters counters;
  EXPECT_EQ(first.ask(1), batch);
  EXPECT_TRUE(first.flush());
  ask_once(second, counters);
  EXPECT_EQ(second.ask(1), 0u) << "the first frame is in flight on the other connection";
  EXPECT_TRUE(second.held_back());

  release.set_value();
  await_input(first);
  first.take_answers(counters);
  EXPECT_EQ(second.ask(1), batch);
  EXPECT_FALSE(second.held_back());
}

TEST(ReplaySender, goes_on_when_the_socket_takes_more) {
  std::promise<void> full;
  std::future<void> is_full = full.get_future();
  constexpr uint32_t large_batch = 4'096, count = 400;  // 70 KB a frame, 28 MB in all
  std::atomic<uint32_t> received{0};
  {
    const FakeServer server{FakeServer::welcoming([&](Peer& peer) {
      is_full.wait();
      for (; received < count; ++received) {
        if (peer.read().getId() != received + 1) return;
      }
      peer.write("x");  // ends the test's wait
      peer.at_end();
    })};
    const sluicegate::Connection connection = connect(server);
    Options options = options_of(large_batch * count);
    options.batch = large_batch;
    Frames frames{options};
    ReplaySender sender{connection, frames.replay, count};
    while (sender.ask(1) > 0) {
    }
    EXPECT_FALSE(sender.flush()) << "no socket takes so much at once";
    full.set_value();
    while (!sender.flush()) {
      pollfd watched{.fd = sender.native_handle(), .events = POLLOUT, .revents = 0};
      ASSERT_EQ(::poll(&watched, 1, 30'000), 1);
    }
    await_input(sender);
  }
  EXPECT_EQ(received, count);
}

// The answer is larger than the sender's input buffer.
TEST(ReplaySender, makes_room_for_a_large_answer) {
  constexpr uint32_t large_batch = 400'000;
  std::promise<void> connected;
  const FakeServer server{
      FakeServer::welcoming([is_connected = connected.get_future().share()](Peer& peer) {
        is_connected.wait();  // else the connection would take the first bytes with the Welcome
        const auto fill = [](auto frame) {
          std::vector<uint8_t> column(large_batch, 1);
          column[7] = 2;
          auto to = frame.initVerdicts();
          to.setCount(large_batch);
          to.setVerdicts(kj::arrayPtr(column.data(), column.size()));
        };
        peer.write(sluicegate::test::answer(1, fill, large_batch));  // in one segment
        peer.at_end();
      })};
  const sluicegate::Connection connection = connect(server);
  Options options = options_of(large_batch);
  options.batch = large_batch;
  Frames frames{options};
  ReplaySender sender{connection, frames.replay, 1};
  Counters counters;
  ASSERT_EQ(sender.ask(1), large_batch);  // the script does not read the frame
  connected.set_value();
  while (sender.frames_in_flight() > 0) {
    await_input(sender);
    sender.take_answers(counters);
  }
  EXPECT_EQ(counters.verdicts.count(sluicegate::Verdict::approved), large_batch - 1);
  EXPECT_EQ(counters.verdicts.count(sluicegate::Verdict::denied), 1u);
}

// A peer that closes with unread bytes resets the connection.
TEST(ReplaySender, ends_where_the_server_resets_the_connection) {
  for (const bool sending : {false, true}) {
    std::promise<void> sent;
    const FakeServer server{
        FakeServer::welcoming([written = sent.get_future().share()](Peer&) { written.wait(); })};
    const sluicegate::Connection connection = connect(server);
    Frames frames{options_of(100)};
    ReplaySender sender{connection, frames.replay, 4};
    ASSERT_EQ(sender.ask(1), batch);
    ASSERT_TRUE(sender.flush());
    sent.set_value();
    await_input(sender);
    Counters counters;
    if (sending) {
      ASSERT_EQ(sender.ask(1), batch);
      EXPECT_THROW(sender.flush(), sluicegate::ConnectionLost);
    } else {
      EXPECT_THROW(sender.take_answers(counters), sluicegate::ConnectionLost);
    }
  }
}

}  // namespace
}  // namespace sluice::load::test
