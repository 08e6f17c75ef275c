// Goal: a connection of HTTP/1.1 goes on in HTTP/2 when its first bytes, or a valid request to
//       upgrade, say so, and not otherwise; nothing that has arrived is lost.
// Method: http2_session_driver.hpp, without the preface.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/session/http2_session_driver.hpp"

namespace sluice::session {
namespace {

class Http2ChangeTest : public Http2SessionTest {
 protected:
  Http2ChangeTest() {
    session_->close();
    session_ = begin_http1();
  }
  void send(std::string text) {
    session_->on_received(std::as_writable_bytes(std::span(text)));
    end_turn();
  }
  std::string sent() {
    std::string all;
    for (const std::string& each : std::exchange(io_.sent, {})) {
      all += each;
      session_->on_sent(static_cast<int32_t>(each.size()), 0);
    }
    return all;
  }
  // As the worker does it.
  void change() {
    ASSERT_EQ(backend_.upgrades.size(), 1u);
    auto next = std::make_unique<Http2Session>(session_->pass_on());
    session_.reset();
    session_ = std::move(next);
    session().begin_http2(std::move(backend_.upgrades[0]));
    end_turn();
  }

  const std::string upgrade_ =
      "Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \r\n\r\n";
  const std::string valid_ =
      "Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
      "HTTP2-Settings: AAMAAABk\r\n\r\n";
};

TEST_F(Http2ChangeTest, recognizes_the_preface_however_it_arrives) {
  const std::string bytes = client_.output();
  for (const char each : bytes.substr(0, 24)) {
    EXPECT_TRUE(backend_.upgrades.empty());
    send({each});
  }
  change();
  send(bytes.substr(24));
  EXPECT_TRUE(client_.receive(sent()));
  client_.ask("GET", "/healthz");
  exchange();
  EXPECT_EQ(client_.answer(1).status, 200);
}

TEST_F(Http2ChangeTest, keeps_what_arrives_with_the_preface) {
  client_.ask("GET", "/healthz");
  send(client_.output());
  change();
  EXPECT_TRUE(client_.receive(sent()));
  EXPECT_EQ(client_.answer(1).status, 200);
}

TEST_F(Http2ChangeTest, answers_another_beginning_in_http_1) {
  send("P");
  send("OST /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(sent().starts_with("HTTP/1.1 405 "));
  send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");  // too late
  EXPECT_TRUE(sent().starts_with("HTTP/1.1 505 "));
  EXPECT_TRUE(backend_.upgrades.empty());
}

TEST_F(Http2ChangeTest, answers_an_upgraded_request_on_stream_1) {
  send("GET /healthz HTTP/1.1\r\n" + valid_);
  EXPECT_TRUE(sent().starts_with("HTTP/1.1 101 "));
  client_.upgrade();
  change();
  exchange();
  EXPECT_EQ(client_.answer(1).status, 200);
  EXPECT_TRUE(client_.answer(1).ended);
}

TEST_F(Http2ChangeTest, sends_the_body_of_an_upgraded_request_behind_the_preface) {
  send("POST /rate/k HTTP/1.1\r\n" + valid_);
  sent();
  client_.upgrade();
  change();
  decide_all();
  for (int turns = 0; turns < 3; ++turns) {
    end_turn();
    EXPECT_TRUE(client_.receive(sent()));
  }
  EXPECT_EQ(client_.answer(1).status, 200);
  EXPECT_EQ(client_.answer(1).body, "");
  EXPECT_FALSE(client_.answer(1).ended);
  exchange();
  EXPECT_EQ(client_.answer(1).body, "1");
  EXPECT_TRUE(client_.answer(1).ended);
}

TEST_F(Http2ChangeTest, keeps_the_head_of_an_upgraded_request) {
  send("POST /rate/k?cost=3 HTTP/1.1\r\nAccept: application/json\r\n" + valid_);
  sent();
  client_.upgrade();
  change();
  exchange();
  ASSERT_EQ(context_.turn.entries().size(), 1u);
  EXPECT_EQ(context_.turn.entries()[0].cost, 3u);
  decide_all();
  exchange();
  EXPECT_EQ(client_.answer(1).body, R"({"request_id":1})");
}

TEST_F(Http2ChangeTest, ignores_an_upgrade_that_is_not_valid) {
  const std::string bad[] = {upgrade_,
                             "Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                             "HTTP2-Settings: AAMA\r\n\r\n",
                             "Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                             "HTTP2-Settings: ???\r\n\r\n"};
  for (const std::string& head : bad) {
    send("GET /healthz HTTP/1.1\r\n" + head);
    EXPECT_TRUE(sent().starts_with("HTTP/1.1 200 ")) << head;
  }
  EXPECT_TRUE(backend_.upgrades.empty());
}

}  // namespace
}  // namespace sluice::session
