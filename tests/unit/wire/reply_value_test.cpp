// Goal: an answer as a value has what HTTP/1.1 writes, whichever answer it is.
// Method: each kind of answer beside its HTTP/1.1 bytes (http_codec_reply_test.cpp has those).
#include "wire/reply_value.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace sluice::wire {
namespace {

void expect_same(const RestAnswer& answer) {
  std::array<std::byte, 16 * 1024> room;
  std::array<std::byte, 16 * 1024> out;
  const ReplyValue value = reply_value(answer, room);
  const size_t size = encode_answer(answer, {.wall_ns = 0}, out);
  const std::string text(reinterpret_cast<const char*>(out.data()), size);
  EXPECT_TRUE(text.starts_with("HTTP/1.1 " + std::to_string(value.head.status) + " ")) << text;
  EXPECT_TRUE(text.ends_with("\r\n\r\n" + std::string{value.body})) << text;
  EXPECT_EQ(text.find("RateLimit: ") != text.npos, value.head.detail != nullptr);
  EXPECT_EQ(text.find("Retry-After: ") != text.npos, value.head.has_retry_after);
  const std::string type = "Content-Type: " + std::string{value.head.content_type} + "\r\n";
  EXPECT_EQ(text.find(type) != text.npos, !value.head.content_type.empty());
}

TEST(ReplyValue, has_what_http_1_writes) {
  const api::Detail detail{.limit = 5, .window_ms = 1'000, .retry_after_ms = 10, .request_id = 77};
  for (const auto verdict : {api::Verdict::approved, api::Verdict::denied, api::Verdict::wait_limit,
                             api::Verdict::never_fits, api::Verdict::table_full,
                             api::Verdict::connection_waiters_full, api::Verdict::draining}) {
    for (const bool json : {false, true}) {
      expect_same(DecisionAnswer{.verdict = verdict, .detail = detail, .key = "k", .json = json});
    }
  }
  expect_same(RestReply{.status = 404, .body = "no", .content_type = "text/plain"});
  expect_same(RestReply{.status = 405, .body = "no", .content_type = "a/json", .json = true});
  expect_same(RestContent{.content_type = "text/plain", .body = "metrics"});
  api::KeyState state;
  state.key = "key";
  expect_same(KeyAnswer{state, true});
}

TEST(ReplyValue, names_an_owner_that_takes_no_such_request) {
  std::array<std::byte, 16 * 1024> room;
  DecisionAnswer answer{.verdict = api::Verdict::owner_unreachable, .key = "k"};
  EXPECT_EQ(reply_value(answer, room).body, "failed to forward request to correct instance");
  answer.unfit_owner = "c:8080";
  expect_same(answer);
  const ReplyValue value = reply_value(answer, room);
  EXPECT_EQ(value.head.status, 502);
  EXPECT_EQ(value.body, "the owner of this key, c:8080, is a gocc, which takes no such request");
  answer.json = true;
  EXPECT_EQ(reply_value(answer, room).body,
            "{\"error\":\"the owner of this key, c:8080, is a gocc, which takes no such request\","
            "\"key\":\"k\"}");
}

TEST(ReplyValue, has_no_length_without_a_body_of_its_own) {
  EXPECT_FALSE(has_length({.status = 204}, {}));
  EXPECT_FALSE(has_length({.status = 200}, {.head_only = true}));
  EXPECT_TRUE(has_length({.status = 200}, {}));
}

}  // namespace
}  // namespace sluice::wire
