// Goal: every kind of answer fits into its bound, and has the bytes of its own encoder.
// Method: the longest of each, written into exactly as many bytes as its bound.
#include "wire/rest_answer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::wire {
namespace {

constexpr ReplyContext head{.keep_alive = false, .http_1_0 = true, .wall_ns = 1};

// The bytes of an answer, written into exactly answer_bytes_max().
std::string written(const RestAnswer& answer) {
  std::vector<std::byte> out(answer_bytes_max(answer));
  const size_t size = encode_answer(answer, head, out);
  EXPECT_LE(size, out.size());
  return {reinterpret_cast<const char*>(out.data()), size};
}

bool ends_with(const std::string& text, std::string_view end) {
  return std::string_view(text).ends_with(end);
}

TEST(RestAnswer, encodes_a_ready_reply) {
  const std::string text = written(key_not_found);
  EXPECT_EQ(text.find("HTTP/1.0 404 Not Found\r\n"), 0u);
  EXPECT_TRUE(ends_with(text, "\r\n\r\nKey not found"));
}

TEST(RestAnswer, encodes_content_with_headers) {
  const std::string body(100'000, 'b');
  const std::string headers = "X-Long: " + std::string(10'000, 'h') + "\r\n";
  const std::string text = written(RestContent{
      .status = 429, .content_type = "application/json", .headers = headers, .body = body});
  EXPECT_NE(text.find(headers), text.npos);
  EXPECT_TRUE(ends_with(text, "\r\n\r\n" + body));
}

TEST(RestAnswer, encodes_a_decision) {
  const std::string key(65'535, '\x01');  // six bytes each in JSON
  const api::Detail detail{.limit = UINT32_MAX,
                           .window_ms = INT64_MAX,
                           .reset_ms = INT64_MAX,
                           .retry_after_ms = INT64_MAX};
  const std::string text =
      written(DecisionAnswer{api::Verdict::wait_limit, detail, key, /*json=*/true});
  EXPECT_EQ(text.find("HTTP/1.0 429 "), 0u);
  EXPECT_TRUE(ends_with(text, "\\u0001\"}"));
  const std::string approved =
      written(DecisionAnswer{api::Verdict::approved, {.request_id = 7}, key, /*json=*/false});
  EXPECT_TRUE(ends_with(approved, "\r\n\r\n7"));
}

TEST(RestAnswer, encodes_a_key) {
  const std::string key(65'535, '<');
  const api::KeyState state{.key = key, .window_ms = 1'000};
  EXPECT_TRUE(ends_with(written(KeyAnswer{state, /*pretty=*/false}), "\"Found\":true}\n"));
  EXPECT_TRUE(ends_with(written(KeyAnswer{state, /*pretty=*/true}), "\"Found\": true\n}\n"));
}

}  // namespace
}  // namespace sluice::wire
