// Goal: bodies that are not whole hold no more than a connection keeps, and nothing once nobody
//       reads them.
#include "session/http2_request_body.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::session {
namespace {

std::span<const std::byte> part_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Http2RequestBody, keeps_what_is_read) {
  size_t connection_bytes = 0;
  std::string text;
  Http2RequestBody body(connection_bytes);
  body.expect();
  EXPECT_TRUE(body.add(part_of("be"), &text));
  EXPECT_TRUE(body.add(part_of("gun"), &text));
  EXPECT_EQ(text, "begun");
  EXPECT_TRUE(body.is_expected());
  body.end();
  EXPECT_FALSE(body.is_expected());
}

TEST(Http2RequestBody, counts_what_it_allocates_until_it_is_whole) {
  size_t connection_bytes = 100;
  std::string text;
  Http2RequestBody body(connection_bytes);
  const size_t capacity = text.capacity();
  body.add(part_of(std::string(1'000, 'b')), &text);
  EXPECT_EQ(connection_bytes, 100 + text.capacity() - capacity);
  body.add(part_of(std::string(5'000, 'b')), &text);
  EXPECT_EQ(connection_bytes, 100 + text.capacity() - capacity);
  body.end();
  EXPECT_EQ(connection_bytes, 100u);
}

TEST(Http2RequestBody, holds_nothing_when_its_stream_is_gone) {
  size_t connection_bytes = 0;
  std::string text;
  {
    Http2RequestBody body(connection_bytes);
    body.add(part_of(std::string(1'000, 'b')), &text);
    EXPECT_GT(connection_bytes, 0u);
  }
  EXPECT_EQ(connection_bytes, 0u);
}

TEST(Http2RequestBody, keeps_no_more_than_the_connection_does) {
  const std::string part(1'000, 'b');
  size_t connection_bytes = Http2RequestBody::kept_bytes_max - part.size();
  std::string text;
  EXPECT_TRUE(Http2RequestBody(connection_bytes).add(part_of(part), &text));
  ++connection_bytes;
  Http2RequestBody refused(connection_bytes);
  EXPECT_FALSE(refused.add(part_of(part), &text));
  EXPECT_TRUE(refused.add(part_of(part), nullptr)) << "what nobody reads needs no room";
  EXPECT_EQ(text.size(), part.size());
}

TEST(Http2RequestBody, drops_what_is_too_large_for_any_request) {
  size_t connection_bytes = 0;
  std::string text;
  Http2RequestBody body(connection_bytes);
  EXPECT_TRUE(body.add(part_of(std::string(limits::http_body_bytes_max, 'b')), &text));
  EXPECT_FALSE(body.is_large());
  EXPECT_TRUE(body.add(part_of("b"), &text));
  EXPECT_TRUE(body.is_large());
  EXPECT_EQ(text.size(), limits::http_body_bytes_max);
}

}  // namespace
}  // namespace sluice::session
