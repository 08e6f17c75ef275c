// A client of HTTP/2 makes requests and reports how each has ended. The other end is libnghttp2's
// server, and raw frames.
#include "wire/http2_client.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/http2_server.hpp"

namespace sluice::wire {
namespace {

using End = Http2ClientEvents::End;

class Http2ClientTest : public ::testing::Test, public Http2ClientEvents {
 protected:
  void on_status(int32_t stream, uint16_t status) noexcept override { statuses_[stream] = status; }
  void on_body(int32_t stream, std::span<const std::byte> bytes) noexcept override {
    bodies_[stream].append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void on_end(int32_t stream, End end) noexcept override {
    ends_[stream].push_back(end);
    if (asks_again_) asked_again_ = ask("/again");
  }
  void on_pong() noexcept override { ++pongs_; }

  int32_t ask(std::string_view path) {
    return client_.request(
        {.method = "GET", .path = path, .authority = "a:8080", .correlation_id = {}});
  }
  bool receive(std::string_view bytes) { return client_.receive(std::as_bytes(std::span(bytes))); }
  std::string output() {
    std::string bytes;
    for (auto next = client_.next(); !next.empty(); next = client_.next()) {
      bytes.append(reinterpret_cast<const char*>(next.data()), next.size());
      client_.taken(next.size());
    }
    return bytes;
  }
  // Both ends send until neither has anything to say.
  bool exchange() {
    bool is_open = true;
    for (;;) {
      const std::string asked = output();
      server_.receive(asked);
      const std::string answered = server_.output();
      if (asked.empty() && answered.empty()) return is_open;
      if (!answered.empty()) is_open = receive(answered);
    }
  }

  support::Http2Server server_;
  Http2Client client_{*this};
  std::map<int32_t, uint16_t> statuses_;
  std::map<int32_t, std::string> bodies_;
  std::map<int32_t, std::vector<End>> ends_;
  int pongs_ = 0;
  bool asks_again_ = false;
  int32_t asked_again_ = 0;
};

TEST_F(Http2ClientTest, makes_a_request_and_reports_its_answer) {
  const int32_t stream = client_.request(
      {.method = "DELETE", .path = "/rate/a", .authority = "a:8080", .correlation_id = "c-1"});
  ASSERT_TRUE(exchange());
  const auto& request = server_.request(0);
  EXPECT_EQ(request.fields.at(":method"), "DELETE");
  EXPECT_EQ(request.fields.at(":authority"), "a:8080");
  EXPECT_EQ(request.fields.at(":scheme"), "http");
  EXPECT_EQ(request.path(), "/rate/a");
  EXPECT_EQ(request.fields.at("x-correlation-id"), "c-1");
  EXPECT_TRUE(ends_.empty());
  server_.answer(stream, "200", "1234");
  ASSERT_TRUE(exchange());
  EXPECT_EQ(statuses_[stream], 200);
  EXPECT_EQ(bodies_[stream], "1234");
  EXPECT_EQ(ends_[stream], std::vector{End::answered});
}

TEST_F(Http2ClientTest, sends_no_correlation_id_without_one) {
  ask("/healthz");
  exchange();
  EXPECT_FALSE(server_.request(0).fields.contains("x-correlation-id"));
}

TEST_F(Http2ClientTest, reports_a_stream_that_the_peer_has_refused) {
  const int32_t stream = ask("/a");
  exchange();
  server_.reset(stream, NGHTTP2_REFUSED_STREAM);
  EXPECT_TRUE(exchange());
  EXPECT_EQ(ends_[stream], std::vector{End::not_processed});
}

TEST_F(Http2ClientTest, reports_a_stream_that_the_peer_has_reset) {
  const int32_t stream = ask("/a");
  exchange();
  server_.reset(stream, NGHTTP2_INTERNAL_ERROR);
  EXPECT_TRUE(exchange());
  EXPECT_EQ(ends_[stream], std::vector{End::failed});
}

TEST_F(Http2ClientTest, cancels_with_a_reset) {
  const int32_t stream = ask("/a");
  exchange();
  client_.cancel(stream);
  EXPECT_TRUE(ends_.empty());
  exchange();
  EXPECT_EQ(server_.request(0).reset, NGHTTP2_CANCEL);
  EXPECT_EQ(ends_[stream], std::vector{End::failed});
}

TEST_F(Http2ClientTest, cancels_a_request_that_has_not_left) {
  const int32_t stream = ask("/a");
  client_.cancel(stream);
  client_.cancel(stream);
  exchange();
  EXPECT_EQ(ends_[stream], std::vector{End::failed});
  for (const auto& request : server_.requests()) EXPECT_TRUE(request.reset);
}

TEST_F(Http2ClientTest, takes_as_many_requests_as_the_peer_allows) {
  exchange();
  for (uint32_t i = 0; i < Http2Client::streams_max; ++i) {
    ASSERT_TRUE(client_.takes_requests()) << i;
    ask("/a");
  }
  EXPECT_FALSE(client_.takes_requests());
  exchange();
  server_.answer(1, "200");
  exchange();
  EXPECT_TRUE(client_.takes_requests());
}

TEST(Http2Client, takes_fewer_requests_of_a_peer_that_allows_fewer) {
  struct Silent : Http2ClientEvents {
    void on_status(int32_t, uint16_t) noexcept override {}
    void on_body(int32_t, std::span<const std::byte>) noexcept override {}
    void on_end(int32_t, End) noexcept override {}
    void on_pong() noexcept override {}
  } events;
  Http2Client client(events);
  support::Http2Server server(1);
  const std::string settings = server.output();
  EXPECT_TRUE(client.receive(std::as_bytes(std::span(settings))));
  EXPECT_TRUE(client.takes_requests());
  client.request({.method = "GET", .path = "/", .authority = "a", .correlation_id = {}});
  EXPECT_FALSE(client.takes_requests());
}

TEST_F(Http2ClientTest, a_request_may_be_made_while_another_one_ends) {
  const int32_t stream = ask("/a");
  exchange();
  asks_again_ = true;
  server_.answer(stream, "200");
  exchange();
  asks_again_ = false;
  ASSERT_EQ(server_.requests().size(), 2U);
  EXPECT_EQ(server_.request(1).path(), "/again");
  server_.answer(asked_again_, "429");
  exchange();
  EXPECT_EQ(statuses_[asked_again_], 429);
}

TEST_F(Http2ClientTest, what_a_peer_that_goes_away_has_not_processed_is_reported) {
  const int32_t first = ask("/a"), second = ask("/b");
  exchange();
  server_.go_away(first);
  EXPECT_TRUE(exchange());
  EXPECT_FALSE(client_.takes_requests());
  EXPECT_EQ(ends_[second], std::vector{End::not_processed});
  EXPECT_TRUE(ends_[first].empty());
  server_.answer(first, "200");
  EXPECT_FALSE(exchange());  // nothing is left to be said
  EXPECT_EQ(ends_[first], std::vector{End::answered});
}

TEST_F(Http2ClientTest, reports_pongs) {
  client_.ping();
  exchange();
  EXPECT_EQ(server_.pings_count(), 1U);
  EXPECT_EQ(pongs_, 1);
}

TEST_F(Http2ClientTest, ends_a_connection_that_is_no_http2) {
  exchange();
  bool is_open = receive("HTTP/1.1 400 Bad Request\r\n\r\n");
  output();  // the GOAWAY
  is_open = is_open && client_.is_open();
  EXPECT_FALSE(is_open);
}

TEST_F(Http2ClientTest, a_long_answer_opens_the_window_again) {
  const int32_t stream = ask("/a");
  exchange();
  server_.answer(stream, "200", std::string(1'000'000, 'x'));
  EXPECT_TRUE(exchange());
  EXPECT_EQ(ends_[stream], std::vector{End::answered});
  EXPECT_EQ(bodies_[stream].size(), 1'000'000U);
}

}  // namespace
}  // namespace sluice::wire
