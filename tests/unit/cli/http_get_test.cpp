// Goal: a body arrives as it was sent, and any other outcome is an error in one sentence with the
//       address.
// Method: a scripted server.
#include "cli/http_get.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/unit/client/fake_server.hpp"

namespace sluice::cli {
namespace {

using sluicegate::test::FakeServer;
using sluicegate::test::Peer;

bool go_on() {
  return true;
}

HttpGet top_of(const FakeServer& server) {
  return {.address = "127.0.0.1:" + std::to_string(server.port()), .target = "/top?keys=3"};
}

FakeServer::Script answering(const std::string& answer) {
  return [answer](Peer& peer) {
    const std::string request = peer.read_until("\r\n\r\n");
    if (request.starts_with("GET /top?keys=3 HTTP/1.1\r\n")) peer.write(answer);
  };
}

// The text of the error.
std::string fault_of(const HttpGet& what) {
  try {
    return "got " + http_get(what, go_on);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(HttpGet, returns_the_body) {
  const FakeServer server{answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")};
  EXPECT_EQ(http_get(top_of(server), go_on), "hello");
}

TEST(HttpGet, takes_a_chunked_body) {
  const FakeServer server{answering(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n")};
  EXPECT_EQ(http_get(top_of(server), go_on), "hello");
}

TEST(HttpGet, another_status_is_a_fault) {
  const FakeServer server{answering("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")};
  const std::string fault = fault_of(top_of(server));
  EXPECT_NE(fault.find("status 404"), std::string::npos) << fault;
  EXPECT_TRUE(fault.starts_with("127.0.0.1:")) << fault;
}

TEST(HttpGet, a_refusal_is_given_with_its_cause) {
  const std::string body = R"({"title":"bad","detail":"limit: must be below 257"})";
  const FakeServer server{answering("HTTP/1.1 400 Bad Request\r\nContent-Length: " +
                                    std::to_string(body.size()) + "\r\n\r\n" + body)};
  const std::string fault = fault_of(top_of(server));
  EXPECT_TRUE(fault.ends_with("status 400: limit: must be below 257")) << fault;
}

TEST(HttpGet, ask_returns_any_status) {
  const FakeServer server{answering("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nnot")};
  const HttpAnswer answer = http_ask(top_of(server), go_on);
  EXPECT_EQ(answer.status, 404u);
  EXPECT_EQ(answer.body, "not");
}

TEST(HttpGet, text_that_is_no_http_is_a_fault) {
  const FakeServer server{answering("SSH-2.0-OpenSSH_9.2\r\n")};
  EXPECT_NE(fault_of(top_of(server)).find("must be the server's REST port"), std::string::npos);
}

TEST(HttpGet, a_refusal_in_a_line_of_text_is_given_with_it) {
  const std::string head = "HTTP/1.1 400 Bad Request\r\nContent-Length: ";
  const FakeServer line{answering(head + "15\r\n\r\nREST is there.\n")};
  EXPECT_TRUE(fault_of(top_of(line)).ends_with("status 400: REST is there."));
  for (const char* body : {"7\r\n\r\n<html>\n", "4\r\n\r\na\nb\n", "2\r\n\r\nab", "0\r\n\r\n"}) {
    const FakeServer other{answering(head + body)};
    EXPECT_TRUE(fault_of(top_of(other)).ends_with("status 400")) << body;
  }
}

TEST(HttpGet, an_endless_body_is_a_fault) {
  const FakeServer server{answering("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")};
  EXPECT_NE(fault_of(top_of(server)).find("body limit"), std::string::npos);
}

TEST(HttpGet, silence_ends_with_the_time_out) {
  const FakeServer server{[](Peer& peer) {
    peer.read_until("\r\n\r\n");
    peer.at_end();
  }};
  HttpGet what = top_of(server);
  what.timeout = std::chrono::milliseconds{50};
  EXPECT_NE(fault_of(what).find("no answer within 50 ms"), std::string::npos);
}

TEST(HttpGet, the_caller_may_give_up) {
  const FakeServer server{[](Peer& peer) {
    peer.read_until("\r\n\r\n");
    peer.at_end();
  }};
  int asked = 0;
  EXPECT_EQ(http_get(top_of(server), [&] { return ++asked < 4; }), "");
}

TEST(HttpGet, no_server_is_a_fault) {
  EXPECT_NE(fault_of({.address = "127.0.0.1:1", .target = "/"}).find("refused"), std::string::npos);
  EXPECT_NE(fault_of({.address = "no.such.host.invalid:80", .target = "/"}).find("invalid:80: "),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
