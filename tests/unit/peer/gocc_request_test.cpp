// An entry as a request that gocc understands, and gocc's answers as verdicts.
#include "peer/gocc_request.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::peer {
namespace {

using api::Verdict;

api::Entry entry_of(std::string_view key) {
  return {.key_data = key.data(), .key_bytes = static_cast<uint16_t>(key.size())};
}

std::string path_of(std::string_view key) {
  return gocc_request(entry_of(key))->path;
}

TEST(GoccRequest, asks_for_a_permit) {
  const auto request = gocc_request(entry_of("key"));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->path, "/rate/key?ik=true");
}

// What Go's library would write otherwise is another key for gocc.
TEST(GoccRequest, escapes_a_key_as_go_does) {
  EXPECT_EQ(path_of("aZ09-_.~$&+,:;=@"), "/rate/aZ09-_.~$&+,:;=@?ik=true");
  EXPECT_EQ(path_of("a/b c%?#\"<>"), "/rate/a%2Fb%20c%25%3F%23%22%3C%3E?ik=true");
  EXPECT_EQ(path_of("\xC3\xA4\x7F"), "/rate/%C3%A4%7F?ik=true");
  EXPECT_EQ(path_of("!'()*[]"), "/rate/%21%27%28%29%2A%5B%5D?ik=true");
}

TEST(GoccRequest, carries_what_gocc_knows_of_an_entry) {
  api::Entry entry = entry_of("key");
  const api::Overrides overrides{.max_requests = 7, .max_requests_in_queue = 0};
  entry.given_overrides = &overrides;
  entry.flags = api::flag::may_wait;
  entry.ticket = 3;
  EXPECT_EQ(gocc_request(entry)->path,
            "/rate/key?ik=true&canWait=true&maxRequests=7&maxRequestsInQueue=0");
}

TEST(GoccRequest, carries_the_correlation_id_of_its_caller) {
  api::Entry entry = entry_of("key");
  EXPECT_EQ(gocc_request(entry)->correlation_id, "");
  const api::Overrides overrides{.correlation_id = "c-17"};
  entry.given_overrides = &overrides;
  EXPECT_EQ(gocc_request(entry)->correlation_id, "c-17");
  EXPECT_EQ(gocc_request(entry)->path, "/rate/key?ik=true");
  entry.op = api::Op::release;
  EXPECT_EQ(gocc_request(entry)->correlation_id, "c-17");
}

// It would keep the stream and wait at gocc, though nobody could be brought the outcome.
TEST(GoccRequest, does_not_let_an_entry_wait_that_its_node_has_no_room_for) {
  api::Entry entry = entry_of("key");
  entry.flags = api::flag::may_wait | api::flag::waiters_full;
  EXPECT_EQ(gocc_request(entry)->path, "/rate/key?ik=true");
}

TEST(GoccRequest, releases_a_permit) {
  api::Entry entry = entry_of("a b");
  entry.op = api::Op::release;
  const auto request = gocc_request(entry);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "DELETE");
  EXPECT_EQ(request->path, "/rate/a%20b/0?ik=true");
}

TEST(GoccRequest, is_none_for_what_gocc_would_ignore) {
  api::Entry look = entry_of("key"), dear = entry_of("key"), windowed = entry_of("key");
  look.op = api::Op::look;
  dear.cost = 2;
  const api::Overrides overrides{.window_ms = 5};
  windowed.given_overrides = &overrides;
  api::Entry many_released = dear;
  many_released.op = api::Op::release;
  for (const api::Entry& entry : {look, dear, windowed, many_released}) {
    EXPECT_FALSE(gocc_request(entry));
  }
}

TEST(GoccRequest, reads_the_answers) {
  EXPECT_EQ(verdict_of({.status = 200, .body = "7"}), Verdict::approved);
  EXPECT_EQ(verdict_of({.status = 429, .body = {}}), Verdict::denied);
  EXPECT_EQ(verdict_of({.status = 400, .body = {}}), Verdict::not_allowed);
  EXPECT_EQ(verdict_of({.status = 403, .body = {}}), Verdict::not_allowed);
  for (const uint16_t status : {0, 103, 204, 301, 404, 500, 502, 503}) {
    EXPECT_EQ(verdict_of({.status = status, .body = {}}), Verdict::owner_unreachable) << status;
  }
}

TEST(GoccRequest, a_denial_says_that_there_was_no_room_to_wait) {
  api::Entry entry = entry_of("key");
  EXPECT_EQ(denial_of(entry), Verdict::denied);
  entry.flags = api::flag::may_wait;
  EXPECT_EQ(denial_of(entry), Verdict::denied);
  entry.flags = api::flag::may_wait | api::flag::waiters_full;
  EXPECT_EQ(denial_of(entry), Verdict::waiters_full);
  entry.flags = api::flag::may_wait | api::flag::connection_waiters_full;
  EXPECT_EQ(denial_of(entry), Verdict::connection_waiters_full);
}

TEST(GoccRequest, reads_the_id) {
  EXPECT_EQ(request_id_of({.status = 200, .body = "18446744073709551615"}), UINT64_MAX);
  EXPECT_EQ(request_id_of({.status = 200, .body = ""}), 0U);
  EXPECT_EQ(request_id_of({.status = 200, .body = "no number"}), 0U);
  EXPECT_EQ(request_id_of({.status = 200, .body = "99999999999999999999"}), 0U);
}

}  // namespace
}  // namespace sluice::peer
