// A probe finds out what a node is by its answer to GET /healthz. The test is the node.
#include "peer/probe.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/peer/peer_fixture.hpp"

namespace sluice::peer {
namespace {

using State = Probe::State;

class ProbeTest : public PeerFixture {
 protected:
  ProbeTest() { probe_.connect(*io::PeerAddress::parse("10.0.0.2:8080")); }

  void event(io::EventKind kind, int32_t result = 0) { probe_.on_event(event_of(0, kind, result)); }
  void receive(std::string text) {
    probe_.on_event(received_event(0, std::as_writable_bytes(std::span(text))));
  }
  void open() {
    event(io::EventKind::connected);
    context_.flush();
  }

  Probe probe_{context_, memory_, 0, "node:8080"};
};

TEST_F(ProbeTest, asks_for_health) {
  open();
  ASSERT_EQ(io_.sent.size(), 1U);
  EXPECT_EQ(io_.sent[0], "GET /healthz HTTP/1.1\r\nHost: node:8080\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(probe_.state(), State::asking);
  EXPECT_EQ(probe_.address().text(), "10.0.0.2:8080");
}

TEST_F(ProbeTest, an_answer_without_the_header_is_of_a_gocc) {
  open();
  receive("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_EQ(probe_.state(), State::answered);
  EXPECT_FALSE(probe_.facts());
  EXPECT_FALSE(probe_.is_over());
  event(io::EventKind::sent, 70);
  event(io::EventKind::closed);
  EXPECT_TRUE(probe_.is_over());
  EXPECT_TRUE(context_.has_changed);
}

TEST_F(ProbeTest, the_header_has_the_facts) {
  open();
  receive(
      "HTTP/1.1 200 OK\r\nsluicegate-node: native=8081, shards=4, instance=00000000000000ff\r\n"
      "\r\n");
  EXPECT_EQ(probe_.state(), State::answered);
  ASSERT_TRUE(probe_.facts());
  EXPECT_EQ(probe_.facts()->native_port, 8081);
  EXPECT_EQ(probe_.facts()->shards, 4U);
  EXPECT_EQ(probe_.facts()->instance, 255U);
}

TEST_F(ProbeTest, takes_the_answer_in_pieces) {
  open();
  for (const char c : std::string("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r")) {
    receive({c});
    EXPECT_EQ(probe_.state(), State::asking);
  }
  receive("\nok");
  EXPECT_EQ(probe_.state(), State::answered);
}

TEST_F(ProbeTest, fails_by_a_header_of_unknown_form) {
  open();
  receive("HTTP/1.1 200 OK\r\nSluicegate-Node: native=x\r\n\r\n");
  EXPECT_EQ(probe_.state(), State::failed);
  EXPECT_EQ(probe_.why_failed(), "its header Sluicegate-Node has an unknown form");
}

TEST_F(ProbeTest, fails_by_another_status) {
  open();
  receive("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(probe_.state(), State::failed);
  EXPECT_EQ(probe_.why_failed(), "/healthz answers 503");
}

TEST_F(ProbeTest, fails_by_what_is_no_http) {
  open();
  receive("SSH-2.0-OpenSSH_9.2\r\n");
  EXPECT_EQ(probe_.state(), State::failed);
}

TEST_F(ProbeTest, fails_by_a_head_without_end) {
  open();
  std::string head = "HTTP/1.1 200 OK\r\n";
  while (head.size() < 20'000) head += "X-Long: " + std::string(1'000, 'x') + "\r\n";
  receive(head);
  EXPECT_EQ(probe_.state(), State::failed);
}

TEST_F(ProbeTest, fails_in_silence) {
  context_.now_ms += 899;
  probe_.on_tick();
  EXPECT_EQ(probe_.state(), State::asking);
  context_.now_ms += 1;
  probe_.on_tick();
  EXPECT_EQ(probe_.state(), State::failed);
  EXPECT_EQ(probe_.why_failed(), "it does not answer");
  EXPECT_EQ(io_.closed.size(), 1U);
  event(io::EventKind::connected);  // too late
  context_.flush();
  EXPECT_TRUE(io_.sent.empty());
}

TEST_F(ProbeTest, fails_when_the_connection_does) {
  event(io::EventKind::failed, -ECONNREFUSED);
  EXPECT_EQ(probe_.why_failed(), "Connection refused");
}

TEST_F(ProbeTest, fails_when_the_node_ends_without_an_answer) {
  open();
  event(io::EventKind::end_of_stream);
  EXPECT_EQ(probe_.state(), State::failed);
}

TEST_F(ProbeTest, is_over_at_once_without_a_socket) {
  io_.connect_error = -EMFILE;
  Probe probe(context_, memory_, 1, "node");
  probe.connect({});
  EXPECT_EQ(probe.state(), State::failed);
  EXPECT_TRUE(probe.is_over());
  probe.close();
}

}  // namespace
}  // namespace sluice::peer
