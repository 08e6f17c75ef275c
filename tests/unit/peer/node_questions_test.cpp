// A question is asked of every node of the list, this one included; its answers are handed over
// once, when all of them are there. The test is the nodes.
#include "peer/node_questions.hpp"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/peer/peer_fixture.hpp"

namespace sluice::peer {
namespace {

class NodeQuestionsTest : public PeerFixture {
 protected:
  static FleetOptions two_nodes() {
    FleetOptions options = fleet();
    options.own_address = *io::PeerAddress::parse("127.0.0.1:8080");
    return options;
  }
  NodeQuestionsTest() : PeerFixture(two_nodes()) {
    addresses_.set(0, *io::PeerAddress::parse("10.0.0.1:8080"));
    addresses_.set(1, *io::PeerAddress::parse("10.0.0.2:8080"));
  }
  void event(uint32_t socket, io::EventKind kind) {
    context_.user_of(socket)->on_event(event_of(socket, kind));
    if (kind == io::EventKind::closed) context_.free(socket);
  }
  void answer(uint32_t socket, const std::string& body, const std::string& type = "text/plain") {
    event(socket, io::EventKind::connected);
    std::string text = "HTTP/1.1 200 OK\r\nContent-Type: " + type +
                       "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    context_.user_of(socket)->on_event(
        received_event(socket, std::as_writable_bytes(std::span(text))));
  }
  void close(uint32_t socket) {
    event(socket, io::EventKind::closed);
    questions_.go_on();
  }

  AddressBook addresses_{2};
  NodeQuestions questions_{context_, addresses_};
};

TEST_F(NodeQuestionsTest, asks_every_node_and_itself) {
  const uint64_t number = questions_.ask("GET", "/top?cluster=true&keys=3");
  ASSERT_EQ(io_.connected_to.size(), 2U);
  EXPECT_EQ(io_.connected_to[0].text(), "127.0.0.1:8080") << "not by its address in the list";
  EXPECT_EQ(io_.connected_to[1].text(), "10.0.0.2:8080");
  answer(1, "two");
  EXPECT_EQ(io_.sent[0],
            "GET /top?keys=3 HTTP/1.1\r\nHost: 10.0.0.2:8080\r\nContent-Length: 0\r\n"
            "Connection: close\r\n\r\n");
  EXPECT_FALSE(questions_.has_answered());
  EXPECT_FALSE(questions_.take_answered());
  answer(0, "one");
  EXPECT_TRUE(questions_.has_answered());
  const auto answered = questions_.take_answered();
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->question, number);
  ASSERT_EQ(answered->answers.size(), 2U);
  EXPECT_EQ(answered->answers[0].node, "10.0.0.1:8080");
  EXPECT_EQ(answered->answers[0].body, "one");
  EXPECT_EQ(answered->answers[1].body, "two");
  EXPECT_FALSE(questions_.has_answered());
  EXPECT_FALSE(questions_.take_answered()) << "once";
  close(1);
  EXPECT_FALSE(questions_.is_closed());
  close(0);
  EXPECT_TRUE(questions_.is_closed());
}

TEST_F(NodeQuestionsTest, a_silent_node_has_its_reason_when_its_time_has_passed) {
  questions_.ask("GET", "/top");
  answer(0, "one");
  context_.now_ms += options_.timeout_ms;
  questions_.on_tick();
  const auto answered = questions_.take_answered();
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->answers[0].reason, "");
  EXPECT_EQ(answered->answers[1].reason, "it does not answer");
  close(0);
  close(1);
}

// Its owner may write a change to the disk first.
TEST_F(NodeQuestionsTest, a_change_has_the_time_for_a_disk) {
  questions_.ask("POST", "/v1/reset-all");
  answer(0, "one");
  context_.now_ms += options_.timeout_ms + limits::durable_wait_ms_max - 1;
  questions_.on_tick();
  EXPECT_FALSE(questions_.take_answered());
  ++context_.now_ms;
  questions_.on_tick();
  const auto answered = questions_.take_answered();
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->answers[1].reason, "it does not answer");
  close(0);
  close(1);
}

TEST_F(NodeQuestionsTest, the_next_question_goes_to_the_next_address) {
  addresses_.set(1, std::array{*io::PeerAddress::parse("10.0.0.2:8080"),
                               *io::PeerAddress::parse("10.0.0.3:8080")});
  questions_.ask("GET", "/top");
  answer(0, "one");
  event(1, io::EventKind::failed);
  EXPECT_TRUE(questions_.take_answered());
  close(0);
  close(1);
  questions_.ask("GET", "/top");
  EXPECT_EQ(io_.connected_to.back().text(), "10.0.0.3:8080");
  answer(2, "one");
  answer(3, "two");
  EXPECT_TRUE(questions_.take_answered());
  close(2);
  close(3);
  EXPECT_EQ(addresses_.address(1)->text(), "10.0.0.3:8080");
}

TEST_F(NodeQuestionsTest, only_so_many_are_under_way) {
  for (uint32_t i = 0; i < NodeQuestions::questions_max; ++i) {
    EXPECT_TRUE(questions_.has_room());
    questions_.ask("GET", "/top");
  }
  EXPECT_FALSE(questions_.has_room());
  questions_.close();
  EXPECT_FALSE(questions_.has_answered()) << "nobody is there for it";
  for (uint32_t socket = 0; socket < io_.connected_to.size(); ++socket) close(socket);
  EXPECT_TRUE(questions_.is_closed());
  EXPECT_FALSE(questions_.has_room()) << "it shuts down";
}

TEST_F(NodeQuestionsTest, all_answers_together_have_a_bound) {
  questions_.ask("GET", "/top");
  const std::string most(NodeQuestions::bytes_max - 10, 'x');
  answer(0, most);
  answer(1, std::string(11, 'y'));
  const auto answered = questions_.take_answered();
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->answers[0].body, most);
  EXPECT_EQ(answered->answers[1].reason, wire::answer_too_long);
  close(0);
  close(1);
}

// A turn takes once.
TEST_F(NodeQuestionsTest, a_long_answer_is_checked_in_several_turns) {
  questions_.ask("GET", "/top");
  answer(0, "[]", "application/json");
  answer(1, "[\"" + std::string(2 * AnswerCheck::bytes_max, 'x') + "]", "application/json");
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_FALSE(questions_.take_answered());
    EXPECT_TRUE(questions_.has_answered()) << "the worker must not sleep";
  }
  const auto answered = questions_.take_answered();
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->answers[0].reason, "");
  EXPECT_EQ(answered->answers[1].reason, "its answer is not JSON");
  close(0);
  close(1);
}

}  // namespace
}  // namespace sluice::peer
