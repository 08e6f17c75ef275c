// Goal: every answer is framed for its request's version and connection.
// Method: a transport over a connection that is never flushed; the test reads the output back.
#include "session/http_transport.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "session/http_session.hpp"
#include "tests/support/fake_io.hpp"
#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::session {
namespace {

using Kind = HttpTransport::Kind;
using Texts = std::vector<std::string>;

class HttpTransportTest : public ::testing::Test {
 protected:
  ~HttpTransportTest() override {
    connection_.close();
    session_.close();
  }

  std::string written() const {
    const auto bytes = connection_.output().written();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  bool has(const char* text) const { return written().find(text) != std::string::npos; }

  support::FakeIo io_;
  KeepingBackend backend_;
  Context context_{backend_, {.waiters_max = 1}};
  net::ConnectionMemory memory_{2};
  std::vector<char> log_memory_ = std::vector<char>(RequestLog::memory_bytes);
  // Only passed on to shards.
  HttpSession session_{context_, io_, {0, 1}, memory_, {.log = log_memory_}};
  net::Connection connection_{io_, {1, 1}, memory_};
  HttpTransport transport_{context_, session_, connection_, log_memory_};
};

TEST_F(HttpTransportTest, writes_decisions_in_the_requested_format) {
  transport_.write_decision({.verdict = api::Verdict::approved, .detail = {.request_id = 5}});
  EXPECT_TRUE(written().ends_with("\r\n\r\n5"));
  EXPECT_FALSE(has("Connection:"));
  transport_.begin(Kind::http_1_0);
  transport_.write_decision({.verdict = api::Verdict::denied});
  EXPECT_TRUE(has("HTTP/1.0 429 Too Many Requests\r\n"));
  EXPECT_TRUE(has("Connection: keep-alive\r\n"));
  EXPECT_FALSE(transport_.is_over());
  transport_.begin(Kind::json | Kind::last);
  transport_.write_decision({.verdict = api::Verdict::denied, .key = "k", .json = true});
  EXPECT_TRUE(has("\"key\":\"k\"}"));
  EXPECT_TRUE(has("Connection: close\r\n"));
  EXPECT_TRUE(transport_.is_over());
}

TEST_F(HttpTransportTest, last_answer_is_a_drained_decision) {
  transport_.write_decision({.verdict = api::Verdict::draining});
  EXPECT_TRUE(has("HTTP/1.1 503 "));
  EXPECT_TRUE(has("Connection: close\r\n"));
  EXPECT_TRUE(transport_.is_over());
}

TEST_F(HttpTransportTest, answers_a_release_with_an_empty_body) {
  transport_.write_release();
  EXPECT_TRUE(has("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(has("Content-Length: 0\r\n"));
}

TEST_F(HttpTransportTest, recognizes_the_last_request) {
  EXPECT_EQ(transport_.kind_of({}), 0);
  EXPECT_EQ(transport_.kind_of({.keep_alive = false, .http_1_0 = true}),
            Kind::last | Kind::http_1_0);
  context_.draining = true;
  EXPECT_EQ(transport_.kind_of({}), Kind::last);
}

TEST_F(HttpTransportTest, answers_the_exchange_in_its_own_kind) {
  transport_.begin(Kind::head_only);
  transport_.answer(wire::RestReply{.status = 405, .allow = "OPTIONS, GET"}, {});
  EXPECT_TRUE(has("Allow: OPTIONS, GET\r\n"));
  EXPECT_FALSE(has("Content-Length:"));
  transport_.begin(Kind::http_1_0);
  transport_.answer(wire::DecisionAnswer{.verdict = api::Verdict::approved}, {});
  EXPECT_TRUE(has("HTTP/1.0 200 OK\r\n"));
  EXPECT_FALSE(transport_.is_over());
  transport_.answer(wire::RestContent{.body = "x"}, {.closes = true});
  EXPECT_TRUE(transport_.is_over());
}

TEST_F(HttpTransportTest, streams_keys_in_chunks) {
  transport_.begin_keys(/*pretty=*/false, /*table_order=*/true);
  EXPECT_TRUE(has("X-Sluicegate-Order: table\r\n"));
  EXPECT_TRUE(has("Transfer-Encoding: chunked\r\n"));
  transport_.write_key({.key = "k"});
  EXPECT_TRUE(has("{\"Key\":\"k\","));
  transport_.end_keys();
  EXPECT_TRUE(written().ends_with("\r\n0\r\n\r\n"));
  EXPECT_FALSE(transport_.is_over());
}

TEST_F(HttpTransportTest, last_answer_is_a_stream_without_chunks) {
  transport_.begin(Kind::http_1_0);
  transport_.begin_keys(/*pretty=*/false, /*table_order=*/false);
  EXPECT_TRUE(has("Connection: close\r\n"));
  EXPECT_FALSE(transport_.is_over()) << "keys follow";
  transport_.end_keys();
  EXPECT_TRUE(written().ends_with("\r\n\r\n{\"Instances\":{}}\n"));
  EXPECT_TRUE(transport_.is_over());
}

TEST_F(HttpTransportTest, last_answer_is_a_refusal) {
  transport_.write_continue();
  EXPECT_EQ(written(), "HTTP/1.1 100 Continue\r\n\r\n");
  transport_.write_refusal(wire::refusal_reply(413, "too long"));
  EXPECT_TRUE(written().ends_with("\r\n\r\ntoo long"));
  EXPECT_TRUE(transport_.is_over());
}

TEST_F(HttpTransportTest, forwards_queries_to_the_shards) {
  transport_.inspect("k");
  transport_.page(5, 10);
  transport_.count_keys();
  transport_.metrics();
  transport_.top(3);
  transport_.ask(backend_.take_batch());
  EXPECT_EQ(backend_.queries, (Texts{"inspect k", "page 5", "count", "metrics", "top 3"}));
  EXPECT_TRUE(backend_.awaits(session_, 0));
}

}  // namespace
}  // namespace sluice::session
