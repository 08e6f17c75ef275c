// Goal: a session's request reaches all nodes, and their answers reach the session, unless it has
//       ended.
// Method: a session sends the request to its backend; the test asks in its place, and plays the
//         nodes.
#include "server/node_queries.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/peer/peer_fixture.hpp"
#include "tests/unit/server/task_side.hpp"

namespace sluice::server {
namespace {

class NodeQueriesTest : public peer::PeerFixture {
 protected:
  NodeQueriesTest() { queries_.attach(questions_); }

  session::Session& open() {
    session::Session& session = side_.sessions.open_http(side_.context, side_.io, {0, 2});
    session.begin();
    return session;
  }
  static void send(session::Session& session, std::string text) {
    session.on_received(std::as_writable_bytes(std::span(text)));
    session.end_turn();
  }
  // Both nodes, whose last sockets these are.
  void answer(const std::string& body) {
    const auto end = static_cast<uint32_t>(io_.connected_to.size());
    for (uint32_t socket = end - 2; socket < end; ++socket) {
      peer::SocketUser& user = *context_.user_of(socket);
      user.on_event(peer::event_of(socket, io::EventKind::connected));
      std::string text = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
                         std::to_string(body.size()) + "\r\n\r\n" + body;
      user.on_event(peer::received_event(socket, std::as_writable_bytes(std::span(text))));
      user.on_event(peer::event_of(socket, io::EventKind::closed));
      context_.free(socket);
    }
  }

  WorkerGroup worker_group_{{.shards = 1}};
  TaskSide side_{worker_group_, 0};
  peer::AddressBook addresses_{2};
  peer::NodeQuestions questions_{context_, addresses_};
  NodeQueries queries_{side_.sessions};
};

TEST_F(NodeQueriesTest, nobody_can_be_asked_without_a_list) {
  NodeQueries alone(side_.sessions);
  EXPECT_FALSE(alone.has_room());
  alone.deliver();
}

TEST_F(NodeQueriesTest, the_session_gets_the_answers_of_all) {
  addresses_.set(1, *io::PeerAddress::parse("10.0.0.2:8080"));
  session::Session& session = open();
  send(session, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");  // it waits for a text
  queries_.ask(session, 0, "GET", "/top?cluster=true");
  queries_.deliver();
  EXPECT_TRUE(side_.io.sent.empty());
  answer("{\"x\":1}\n");
  queries_.deliver();
  session.end_turn();
  ASSERT_EQ(side_.io.sent.size(), 1U);
  EXPECT_TRUE(side_.io.sent[0].ends_with(
      "\r\n\r\n{\"nodes\":[{\"node\":\"10.0.0.1:8080\",\"answer\":{\"x\":1}},"
      "{\"node\":\"10.0.0.2:8080\",\"answer\":{\"x\":1}}],\"unanswered\":[]}\n"))
      << side_.io.sent[0];
  EXPECT_TRUE(questions_.is_closed());
}

TEST_F(NodeQueriesTest, a_turn_delivers_one_text) {
  addresses_.set(1, *io::PeerAddress::parse("10.0.0.2:8080"));
  session::Session& session = open();
  send(session, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  queries_.ask(side_.ended_session, 7, "GET", "/top?cluster=true");
  answer("{}");
  queries_.ask(session, 0, "GET", "/top?cluster=true");
  answer("{}");
  queries_.deliver();
  EXPECT_TRUE(questions_.has_answered());
  queries_.deliver();
  EXPECT_FALSE(questions_.has_answered());
  session.end_turn();
  EXPECT_EQ(side_.io.sent.size(), 1U);
}

TEST_F(NodeQueriesTest, a_session_that_has_ended_gets_nothing) {
  addresses_.set(1, *io::PeerAddress::parse("10.0.0.2:8080"));
  queries_.ask(side_.ended_session, 7, "GET", "/top?cluster=true");
  answer("{}");
  queries_.deliver();
  EXPECT_TRUE(questions_.is_closed());
  EXPECT_TRUE(queries_.has_room());
}

}  // namespace
}  // namespace sluice::server
