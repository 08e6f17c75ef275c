// Goal: replies of several turns are sent together where the next turn goes on with their session,
//       but never for long, nor many bytes of them.
// Method: turns whose work is over after one frame, over a backend that asks nobody.
#include <utility>
#include <vector>

#include "tests/unit/session/native_quota_fixture.hpp"

namespace sluice::session {
namespace {

class NativeSessionSendsTest : public NativeQuotaFixture {
 protected:
  NativeSessionSendsTest() { peer_reads_ = false; }

  void receive_pings(uint64_t count) {
    received_.clear();
    for (uint64_t id = 100; id < 100 + count; ++id) {
      capnp::MallocMessageBuilder message;
      auto frame = message.initRoot<schema::ClientFrame>();
      frame.setId(id);
      frame.setPing();
      const auto words = capnp::messageToFlatArray(message);
      const auto* first = reinterpret_cast<const uint64_t*>(words.begin());
      received_.insert(received_.end(), first, first + words.size());
    }
    context_.work.begin_turn(true);
    session_.on_received(std::as_writable_bytes(std::span(received_)));
  }

  // Has time for one more frame.
  void serve_one() {
    context_.work.begin_turn(true);
    context_.work.spend(context_.work.turn_work() - 1);
    if (!context_.ready.empty()) context_.ready.pop().resume();
  }
  // Returns how many sends there were.
  size_t turn() {
    serve_one();
    session_.end_turn();
    const size_t count = io_.sent.size();
    io_.sent.clear();
    for (size_t send = 0; send < count; ++send) session_.on_sent(1, 0);
    return count;
  }
  std::vector<size_t> turns(size_t count) {
    std::vector<size_t> sends;
    while (sends.size() < count) sends.push_back(turn());
    return sends;
  }
};

using Sends = std::vector<size_t>;

TEST_F(NativeSessionSendsTest, are_put_off_for_four_turns_while_requests_are_left) {
  receive_pings(11);
  EXPECT_EQ(turns(11), (Sends{0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(turn(), 0U) << "there was nothing more to send";
}

TEST_F(NativeSessionSendsTest, are_not_put_off_without_another_request) {
  for (int request = 0; request < 3; ++request) {
    receive_pings(1);
    EXPECT_EQ(turn(), 1U);
  }
}

TEST_F(NativeSessionSendsTest, are_not_put_off_with_many_bytes) {
  receive_pings(3);
  session_.on_page(7, std::vector<api::KeyState>(2'000), 0);
  EXPECT_EQ(turns(3), (Sends{1, 0, 1}));
}

// What is sent at last leaves with the next turn: the one after it closes the connection.
TEST_F(NativeSessionSendsTest, are_not_put_off_while_the_server_drains) {
  receive_pings(3);
  EXPECT_EQ(turn(), 0U);
  context_.draining = true;
  EXPECT_EQ(turn(), 1U);
}

TEST_F(NativeSessionSendsTest, are_not_put_off_in_a_turn_with_work_left) {
  receive_pings(3);
  serve_one();
  context_.work.begin_turn(true);
  session_.end_turn();
  EXPECT_EQ(io_.sent.size(), 1U);
}

TEST_F(NativeSessionSendsTest, are_not_put_off_while_another_session_is_next) {
  receive_pings(3);
  EXPECT_EQ(turn(), 0U);
  net::ConnectionMemory memory(1);
  support::FakeIo io;
  NativeSession other(context_, io, {1, 1}, memory);
  other.begin();
  serve_one();
  context_.ready.push(other, 0);
  session_.end_turn();
  EXPECT_EQ(io_.sent.size(), 1U);
  other.close();
}

TEST_F(NativeSessionSendsTest, are_put_off_anew_behind_one_that_was_under_way) {
  receive_pings(9);
  EXPECT_EQ(turns(4), (Sends{0, 0, 0, 0}));
  serve_one();
  session_.end_turn();
  EXPECT_EQ(io_.sent.size(), 1U);
  EXPECT_EQ(std::exchange(io_.sent, {}).size(), 1U);
  serve_one();
  session_.end_turn();  // the last send is under way
  EXPECT_TRUE(io_.sent.empty());
  session_.on_sent(1, 0);
  EXPECT_EQ(turns(3), (Sends{0, 0, 1}));
}

}  // namespace
}  // namespace sluice::session
