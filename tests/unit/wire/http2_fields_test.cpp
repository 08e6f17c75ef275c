// Goal: an answer's fields in HTTP/2 are those of HTTP/1.1, by its rules.
// Method: heads with every field, and the list that nghttp2 gets.
#include "wire/http2_fields.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::wire {
namespace {

using Pair = std::pair<std::string, std::string>;

std::string text(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

std::vector<Pair> pairs(const Http2Fields& fields) {
  std::vector<Pair> pairs;
  for (const nghttp2_nv& field : fields.list()) {
    pairs.emplace_back(text(field.name, field.namelen), text(field.value, field.valuelen));
  }
  return pairs;
}

constexpr int64_t wall_ns = 784'111'777'000'000'000;  // RFC 9110's example
const Pair date{"date", "Sun, 06 Nov 1994 08:49:37 GMT"};

TEST(Http2Fields, are_those_of_the_head_in_lower_case) {
  const api::Detail detail{
      .limit = 100, .remaining = 7, .window_ms = 1'000, .reset_ms = 300, .retry_after_ms = 300};
  Http2Fields fields;
  fields.encode({.status = 429,
                 .allow = "GET",
                 .content_type = "text/plain",
                 .detail = &detail,
                 .has_retry_after = true,
                 .table_order = true,
                 .headers = "X-RateLimit-Limit: 5\r\nEmpty:\r\n"},
                wall_ns, 12);
  const std::vector<Pair> expected{{":status", "429"},
                                   {"allow", "GET"},
                                   {"content-type", "text/plain"},
                                   {"ratelimit", "\"window\";r=7;t=1"},
                                   {"ratelimit-policy", "\"window\";q=100;w=1"},
                                   {"retry-after", "1"},
                                   {"x-ratelimit-limit", "5"},
                                   {"empty", ""},
                                   {"x-sluicegate-order", "table"},
                                   date,
                                   {"content-length", "12"}};
  EXPECT_EQ(pairs(fields), expected);
}

TEST(Http2Fields, leave_out_what_is_absent) {
  Http2Fields fields;
  fields.encode({.status = 204}, wall_ns, std::nullopt);
  EXPECT_EQ(pairs(fields), (std::vector<Pair>{{":status", "204"}, date}));
  fields.encode_status(100);
  EXPECT_EQ(pairs(fields), (std::vector<Pair>{{":status", "100"}}));
}

TEST(Http2Fields, have_room_for_long_lines) {
  Http2Fields fields;
  fields.encode_status(100);
  const std::string lines = "Long: " + std::string(10'000, 'v') + "\r\n";
  fields.encode({.headers = lines}, wall_ns, std::nullopt);
  EXPECT_TRUE(pairs(fields)[1] == Pair("long", std::string(10'000, 'v')));
}

// A compressed value that differs in each answer would only displace others from the table; one
// that answers share is one byte from the second answer on.
TEST(Http2Fields, index_values_that_answers_share) {
  const api::Detail detail{.limit = 1};
  Http2Fields fields;
  fields.encode({.content_type = "text/plain", .detail = &detail}, wall_ns, 1);
  for (const nghttp2_nv& field : fields.list()) {
    const std::string name = text(field.name, field.namelen);
    const bool changes = name == "ratelimit" || name == "content-length";
    EXPECT_EQ((field.flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0, changes) << name;
  }
}

// nghttp2 reads the names of a frame when it sends it, after other answers have been encoded.
TEST(Http2Fields, have_names_copied_unless_they_are_constants) {
  Http2Fields fields;
  fields.encode({.content_type = "text/plain", .headers = "X-Line: 1\r\n"}, wall_ns, 1);
  for (const nghttp2_nv& field : fields.list()) {
    const std::string name = text(field.name, field.namelen);
    EXPECT_EQ((field.flags & NGHTTP2_NV_FLAG_NO_COPY_NAME) != 0, name != "x-line") << name;
    EXPECT_EQ(field.flags & NGHTTP2_NV_FLAG_NO_COPY_VALUE, 0) << name;
  }
}

}  // namespace
}  // namespace sluice::wire
