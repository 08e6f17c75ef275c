// Goal: a head of HTTP/2 becomes the request that the same head of HTTP/1.1 is, with its refusals.
// Method: fields one by one; the text that the log gets.
#include "wire/http2_head.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/limits.hpp"

namespace sluice::wire {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

class Http2HeadTest : public ::testing::Test {
 protected:
  std::string read(const Fields& fields, bool has_body = false) {
    head_.begin();
    for (const auto& [name, value] : fields) head_.add(name, value);
    const auto refused = head_.finish(has_body, text_, request_);
    return refused ? std::to_string(refused->status) + " " + std::string{refused->cause} : "";
  }
  static Fields with(const Fields& more) {
    Fields fields{{":method", "POST"},
                  {":scheme", "http"},
                  {":path", "/rate/k?a=b"},
                  {":authority", "host:1"}};
    fields.insert(fields.end(), more.begin(), more.end());
    return fields;
  }

  Http2Head head_;
  std::string text_;
  HttpRequest request_;
};

TEST_F(Http2HeadTest, gives_the_request_and_its_text) {
  EXPECT_EQ(read(with({{"accept", "application/json"},
                       {"accept", "text/plain"},
                       {"x-ratelimit-style", "openai"},
                       {"x-correlation-id", "c"}})),
            "");
  EXPECT_EQ(request_.method, "POST");
  EXPECT_EQ(request_.target, "/rate/k?a=b");
  EXPECT_EQ(request_.accept, "application/json");
  EXPECT_EQ(request_.rate_style, "openai");
  EXPECT_EQ(request_.correlation_id, "c");
  EXPECT_FALSE(request_.expects_continue);
  EXPECT_EQ(text_,
            "POST /rate/k?a=b HTTP/2.0\r\nHost: host:1\r\naccept: application/json\r\n"
            "accept: text/plain\r\nx-ratelimit-style: openai\r\nx-correlation-id: c\r\n\r\n");
}

TEST_F(Http2HeadTest, keeps_nothing_of_the_head_before) {
  read(with({{"accept", "a"}, {"expect", "x"}, {"content-length", "99999999"}}));
  EXPECT_EQ(read(with({}), true), "");
  EXPECT_EQ(request_.accept, "");
  EXPECT_EQ(text_, "POST /rate/k?a=b HTTP/2.0\r\nHost: host:1\r\n\r\n");
}

TEST_F(Http2HeadTest, takes_the_host_where_there_is_no_authority) {
  EXPECT_EQ(read({{":method", "GET"}, {":path", "/"}, {"host", "h"}}), "");
  EXPECT_EQ(text_, "GET / HTTP/2.0\r\nHost: h\r\n\r\n");
}

TEST_F(Http2HeadTest, refuses_what_http_1_refuses) {
  EXPECT_EQ(read({{":method", "GET"}, {":path", "/"}, {":authority", "a b"}}),
            "400 malformed Host header");
  EXPECT_EQ(read(with({{"host", "another"}})), "400 malformed Host header");
  EXPECT_EQ(read(with({{"host", "host:1"}})), "");
  EXPECT_EQ(read({{":method", "CONNECT"}, {":authority", "h"}}),
            "400 the request target is not a path");
  EXPECT_EQ(read(with({{"expect", "200-ok"}})), "417 only Expect: 100-continue is supported");
  EXPECT_EQ(read(with({{"content-length", "65537"}}), true), "413 the request body is too large");
  EXPECT_EQ(read(with({{"content-length", "65536"}}), true), "");
}

TEST_F(Http2HeadTest, continues_only_where_a_body_comes) {
  EXPECT_EQ(read(with({{"expect", "100-Continue"}}), true), "");
  EXPECT_TRUE(request_.expects_continue);
  EXPECT_EQ(read(with({{"expect", "100-continue"}}), false), "");
  EXPECT_FALSE(request_.expects_continue);
}

TEST_F(Http2HeadTest, is_bounded_as_in_http_1) {
  size_t bytes = 0;
  for (const auto& [name, value] : with({{"a", ""}})) bytes += name.size() + value.size() + 4;
  const size_t left = limits::http_header_bytes_max - bytes;
  EXPECT_EQ(read(with({{"a", std::string(left, 'v')}})), "");
  EXPECT_EQ(read(with({{"a", std::string(left + 1, 'v')}})), "431 the request head is too large");
}

}  // namespace
}  // namespace sluice::wire
