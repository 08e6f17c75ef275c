// A request to one node ends with its whole answer, or with the reason why there is none. The test
// is the node.
#include "peer/node_fetch.hpp"

#include <gtest/gtest.h>

#include "tests/unit/peer/peer_fixture.hpp"

namespace sluice::peer {
namespace {

class NodeFetchTest : public PeerFixture {
 protected:
  NodeFetchTest() { fetch_.connect(*io::PeerAddress::parse("10.0.0.2:8080")); }

  void event(io::EventKind kind, int32_t result = 0) { fetch_.on_event(event_of(0, kind, result)); }
  void receive(std::string text) {
    fetch_.on_event(received_event(0, std::as_writable_bytes(std::span(text))));
  }
  const std::string& reason() { return fetch_.answer().reason; }

  size_t room_ = 100;
  static constexpr int64_t timeout_ms = 700;  // of this request, whatever the options have
  NodeFetch fetch_{context_, "node:8080", "GET /top HTTP/1.1\r\n\r\n", room_, timeout_ms};
};

TEST_F(NodeFetchTest, sends_its_request_and_takes_the_answer) {
  event(io::EventKind::connected);
  EXPECT_EQ(io_.calls, (std::vector<std::string>{"connect", "receive_start", "send"}));
  EXPECT_EQ(io_.sent[0], "GET /top HTTP/1.1\r\n\r\n");
  event(io::EventKind::sent, 21);
  receive("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_TRUE(fetch_.is_answered());
  EXPECT_FALSE(fetch_.unreached());
  EXPECT_FALSE(fetch_.is_over());
  EXPECT_EQ(fetch_.answer().node, "node:8080");
  EXPECT_EQ(fetch_.answer().status, 200);
  EXPECT_TRUE(fetch_.answer().is_json);
  EXPECT_EQ(fetch_.answer().body, "{}");
  EXPECT_EQ(reason(), "");
  EXPECT_EQ(io_.closed.size(), 1U);
  event(io::EventKind::closed);
  EXPECT_TRUE(fetch_.is_over());
}

TEST_F(NodeFetchTest, takes_chunks_in_pieces) {
  event(io::EventKind::connected);
  for (const char c :
       std::string("HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")) {
    EXPECT_FALSE(fetch_.is_answered());
    receive(std::string(1, c));
  }
  EXPECT_EQ(fetch_.answer().status, 404);
  EXPECT_FALSE(fetch_.answer().is_json);
  EXPECT_EQ(fetch_.answer().body, "abcde");
}

TEST_F(NodeFetchTest, takes_a_body_that_ends_with_the_connection) {
  event(io::EventKind::connected);
  receive("HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n\r\n{\"a\":");
  receive("1}");
  EXPECT_FALSE(fetch_.is_answered());
  event(io::EventKind::end_of_stream);
  EXPECT_TRUE(fetch_.answer().is_json);
  EXPECT_EQ(fetch_.answer().body, "{\"a\":1}");
}

TEST_F(NodeFetchTest, an_answer_that_breaks_off_is_none) {
  event(io::EventKind::connected);
  receive("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
  event(io::EventKind::end_of_stream);
  EXPECT_EQ(reason(), "it has ended the connection");
}

// As of a node that ends while it is asked.
TEST_F(NodeFetchTest, a_connection_that_ends_without_a_byte_brings_no_answer) {
  event(io::EventKind::connected);
  event(io::EventKind::end_of_stream);
  EXPECT_EQ(reason(), "it has ended the connection");
}

TEST_F(NodeFetchTest, refuses_more_than_it_has_room_for) {
  event(io::EventKind::connected);
  receive("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n" + std::string(101, 'x'));
  EXPECT_EQ(reason(), wire::answer_too_long);
  EXPECT_EQ(room_, 100u);
}

// All answers to one question share their room.
TEST_F(NodeFetchTest, refuses_what_others_have_left_no_room_for) {
  event(io::EventKind::connected);
  receive("HTTP/1.1 200 OK\r\n\r\n" + std::string(60, 'x'));
  EXPECT_EQ(room_, 40u);
  room_ -= 30;
  receive(std::string(10, 'x'));
  EXPECT_FALSE(fetch_.is_answered());
  receive("x");
  EXPECT_EQ(reason(), wire::answer_too_long);
  EXPECT_EQ(room_, 70u) << "its own part is free again";
}

// A line that goes before a chunk has no end.
TEST_F(NodeFetchTest, refuses_more_than_it_stores_unparsed) {
  event(io::EventKind::connected);
  receive("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;");
  const std::string part(1'024, 'x');
  for (size_t bytes = 2; bytes + part.size() <= NodeFetch::unparsed_bytes_max; bytes += 1'024) {
    receive(part);
    ASSERT_FALSE(fetch_.is_answered()) << bytes;
  }
  receive(part);
  EXPECT_EQ(reason(), "a line of its answer is too long");
}

TEST_F(NodeFetchTest, refuses_what_is_no_http) {
  event(io::EventKind::connected);
  receive("220 mail.example.org ESMTP\r\n\r\n");
  EXPECT_EQ(reason(), "its answer is no HTTP");
  receive("more");
  event(io::EventKind::end_of_stream);
  EXPECT_EQ(io_.closed.size(), 1U) << "it is closed once";
}

TEST_F(NodeFetchTest, ends_when_its_time_has_passed) {
  context_.now_ms += timeout_ms - 1;
  fetch_.on_tick();
  EXPECT_FALSE(fetch_.is_answered());
  ++context_.now_ms;
  fetch_.on_tick();
  EXPECT_EQ(reason(), "it does not answer");
  event(io::EventKind::connected);
  EXPECT_TRUE(io_.sent.empty());
}

TEST_F(NodeFetchTest, fails_with_its_connection) {
  event(io::EventKind::failed, -ECONNREFUSED);
  EXPECT_EQ(reason(), "Connection refused");
  ASSERT_TRUE(fetch_.unreached());
  EXPECT_EQ(fetch_.unreached()->text(), "10.0.0.2:8080");
}

TEST_F(NodeFetchTest, is_over_at_once_without_an_address_or_a_socket) {
  NodeFetch nowhere(context_, "b:1", "", room_, timeout_ms);
  nowhere.connect(std::nullopt);
  EXPECT_TRUE(nowhere.is_over());
  EXPECT_EQ(nowhere.answer().reason, "its name has no address yet");
  io_.connect_error = -EMFILE;
  NodeFetch none(context_, "b:1", "", room_, timeout_ms);
  none.connect(*io::PeerAddress::parse("10.0.0.2:8080"));
  EXPECT_TRUE(none.is_over());
  EXPECT_EQ(none.answer().reason, "Too many open files");
  EXPECT_FALSE(none.unreached()) << "nobody was asked there";
}

}  // namespace
}  // namespace sluice::peer
