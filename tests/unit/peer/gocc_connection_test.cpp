// A connection to a gocc: requests and their ends, wait limits, silence, and keep-alive. The test
// is the gocc.
#include "peer/gocc_connection.hpp"

#include <gtest/gtest.h>

#include "tests/support/http2_server.hpp"
#include "tests/unit/peer/gocc_side.hpp"
#include "tests/unit/peer/peer_fixture.hpp"

namespace sluice::peer {
namespace {

using State = GoccConnection::State;
using End = GoccConnection::Listener::End;

class GoccConnectionTest : public PeerFixture, public GoccConnection::Listener {
 protected:
  struct Ended {
    Asked asked;
    End end;
    uint16_t status;
    std::string body;
  };

  GoccConnectionTest() { connection_.connect(*io::PeerAddress::parse("10.0.0.2:8080")); }
  ~GoccConnectionTest() override {
    asks_again_ = false;
    connection_.lose("the test is over");
  }

  void on_answer(const Asked& asked, End end, const GoccAnswer& answer) noexcept override {
    ended_.push_back({asked, end, answer.status, std::string(answer.body)});
    if (asks_again_ && connection_.takes_requests()) ask("/again");
  }
  void event(io::EventKind kind, int32_t result = 0) {
    connection_.on_event(event_of(0, kind, result));
  }
  void open() {
    event(io::EventKind::connected);
    exchange();
  }
  void exchange() {
    exchange_with(gocc_, io_, context_,
                  [this](const io::Event& one) { connection_.on_event(one); });
  }
  void ask(std::string_view path, const Asked& asked = {}) {
    connection_.ask({.method = "GET", .path = std::string(path)}, asked);
  }
  void pass(int64_t ms) {
    context_.now_ms += ms;
    connection_.on_tick();
  }

  GoccConnection connection_{context_, memory_, 0, "10.0.0.2:8080", *this};
  GoccSide gocc_{0};
  std::vector<Ended> ended_;
  bool asks_again_ = false;
};

TEST_F(GoccConnectionTest, asks_and_hands_on_the_answer) {
  EXPECT_EQ(connection_.state(), State::connecting);
  EXPECT_FALSE(connection_.takes_requests());
  open();
  EXPECT_EQ(connection_.state(), State::open);
  ASSERT_TRUE(connection_.takes_requests());
  ask("/rate/a", {.place = 3});
  exchange();
  EXPECT_EQ(gocc_.http.request(0).path(), "/rate/a");
  EXPECT_EQ(gocc_.http.request(0).fields.at(":authority"), "10.0.0.2:8080");
  gocc_.http.answer(1, "200", "42");
  exchange();
  ASSERT_EQ(ended_.size(), 1U);
  EXPECT_EQ(ended_[0].asked.place, 3U);
  EXPECT_EQ(ended_[0].end, End::answered);
  EXPECT_EQ(ended_[0].status, 200);
  EXPECT_EQ(ended_[0].body, "42");
}

TEST_F(GoccConnectionTest, keeps_no_more_of_a_body_than_an_id_needs) {
  open();
  ask("/a");
  exchange();
  gocc_.http.answer(1, "500", std::string(100'000, 'x'));
  exchange();
  EXPECT_EQ(ended_.at(0).body.size(), 64U);
}

TEST_F(GoccConnectionTest, asks_again_while_a_request_ends) {
  open();
  ask("/a");
  exchange();
  asks_again_ = true;
  gocc_.http.answer(1, "200");
  exchange();
  EXPECT_EQ(gocc_.http.requests().size(), 2U);
}

// A stream is cancelled while the connection is flushed, and its listener asks anew.
TEST_F(GoccConnectionTest, asks_again_while_a_request_is_cancelled) {
  open();
  ask("/a", {.waiter = 8, .due_ms = base::never_ms});
  exchange();
  asks_again_ = true;
  EXPECT_TRUE(connection_.cancel(8));
  exchange();
  EXPECT_EQ(gocc_.http.request(0).reset, NGHTTP2_CANCEL);
  asks_again_ = false;
  EXPECT_EQ(gocc_.http.requests().size(), 2U);
  ask("/b");
  exchange();
  EXPECT_EQ(gocc_.http.requests().size(), 3U);
}

TEST_F(GoccConnectionTest, ends_a_wait_when_its_limit_has_passed) {
  open();
  ask("/a", {.waiter = 8, .due_ms = context_.now_ms + 100});
  ask("/b", {.waiter = 9, .due_ms = base::never_ms});
  exchange();
  pass(99);
  exchange();
  EXPECT_TRUE(ended_.empty());
  pass(1);
  exchange();
  EXPECT_EQ(gocc_.http.request(0).reset, NGHTTP2_CANCEL);
  EXPECT_FALSE(gocc_.http.request(1).reset);
  ASSERT_EQ(ended_.size(), 1U);
  EXPECT_EQ(ended_[0].asked.waiter, 8U);
  EXPECT_EQ(ended_[0].end, End::failed);
}

TEST_F(GoccConnectionTest, cancels_the_request_of_a_waiter) {
  open();
  ask("/a", {.waiter = 8, .due_ms = base::never_ms});
  exchange();
  EXPECT_FALSE(connection_.cancel(7));
  EXPECT_TRUE(connection_.cancel(8));
  exchange();
  EXPECT_TRUE(ended_.at(0).asked.is_withdrawn);
}

TEST_F(GoccConnectionTest, asks_for_health_now_and_then_when_idle) {
  open();
  pass(9'999);
  exchange();
  EXPECT_TRUE(gocc_.http.requests().empty());
  pass(1);
  exchange();
  ASSERT_EQ(gocc_.http.requests().size(), 1U);
  EXPECT_EQ(gocc_.http.request(0).path(), "/healthz");
  EXPECT_EQ(connection_.state(), State::open);
  gocc_.http.answer(1, "200");
  exchange();
  EXPECT_TRUE(ended_.empty());
  pass(5'000);
  ask("/a");
  exchange();
  gocc_.http.answer(3, "200");
  exchange();
  pass(5'000);
  exchange();
  EXPECT_EQ(gocc_.http.requests().size(), 2U);
}

TEST_F(GoccConnectionTest, a_gocc_that_was_idle_has_the_whole_time_for_an_answer) {
  open();
  pass(9'000);
  ask("/a");
  context_.flush();
  pass(890);
  EXPECT_EQ(connection_.state(), State::open);
}

TEST_F(GoccConnectionTest, waits_for_a_gocc_that_answers_pings) {
  open();
  ask("/a");
  exchange();
  for (uint32_t pings = 1; pings < 6; ++pings) {
    pass(300);
    exchange();
    EXPECT_EQ(gocc_.http.pings_count(), pings);
  }
  EXPECT_EQ(connection_.state(), State::open);
}

TEST_F(GoccConnectionTest, is_lost_when_nobody_answers_the_connection) {
  pass(899);
  EXPECT_EQ(connection_.state(), State::connecting);
  pass(1);
  EXPECT_EQ(connection_.state(), State::lost);
  EXPECT_EQ(io_.closed.size(), 1U);
  event(io::EventKind::closed);
  EXPECT_EQ(connection_.state(), State::closed);
}

TEST_F(GoccConnectionTest, is_lost_with_its_reason) {
  event(io::EventKind::failed, -ECONNREFUSED);
  EXPECT_EQ(connection_.state(), State::lost);
  EXPECT_EQ(connection_.why_lost(), "Connection refused");
}

TEST_F(GoccConnectionTest, is_closed_at_once_without_a_socket) {
  io_.connect_error = -EMFILE;
  GoccConnection connection(context_, memory_, 1, "a", *this);
  connection.connect({});
  EXPECT_EQ(connection.state(), State::closed);
}

TEST_F(GoccConnectionTest, requests_have_failed_when_it_ends) {
  open();
  ask("/a");
  ask("/b");
  exchange();
  asks_again_ = true;  // it takes none any more
  event(io::EventKind::end_of_stream);
  EXPECT_EQ(ended_.size(), 2U);
  EXPECT_EQ(connection_.state(), State::lost);
  event(io::EventKind::received);
  event(io::EventKind::closed);
}

TEST_F(GoccConnectionTest, what_a_gocc_that_goes_away_has_not_processed_is_known) {
  open();
  ask("/a");
  ask("/b");
  exchange();
  gocc_.http.go_away(1);
  exchange();
  ASSERT_EQ(ended_.size(), 1U);
  EXPECT_EQ(ended_[0].end, End::not_processed);
  EXPECT_FALSE(connection_.takes_requests());
  EXPECT_EQ(connection_.state(), State::open);
  gocc_.http.answer(1, "200");
  exchange();
  EXPECT_EQ(ended_.at(1).end, End::answered);
  EXPECT_EQ(connection_.state(), State::lost);
}

TEST_F(GoccConnectionTest, is_lost_by_bytes_that_are_no_http2) {
  open();
  Words words(4, UINT64_MAX);
  connection_.on_event(received_event(0, std::as_writable_bytes(std::span(words))));
  context_.flush();
  EXPECT_EQ(connection_.state(), State::lost);
}

TEST_F(GoccConnectionTest, pings_a_silent_gocc_and_is_lost) {
  open();
  ask("/a");
  context_.flush();  // it leaves, and nothing comes
  pass(299);
  EXPECT_EQ(connection_.state(), State::open);
  pass(1);
  pass(599);
  EXPECT_EQ(connection_.state(), State::open);
  pass(1);
  EXPECT_EQ(connection_.state(), State::lost);
  EXPECT_EQ(connection_.why_lost(), "silent");
  EXPECT_EQ(ended_.at(0).end, End::failed);
}

// RFC 9113, 8.1: a server may reset a stream with NO_ERROR before it has answered.
TEST_F(GoccConnectionTest, a_stream_without_an_answer_has_failed_however_it_ends) {
  open();
  ask("/a");
  exchange();
  gocc_.http.reset(1, NGHTTP2_NO_ERROR);
  exchange();
  EXPECT_EQ(ended_.at(0).end, End::failed);
}

}  // namespace
}  // namespace sluice::peer
