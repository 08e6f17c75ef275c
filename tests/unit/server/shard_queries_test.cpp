// Goal: a query reaches the shards that it is about, its session gets their answers, and then there
//       is room for another, also when the session has ended.
// Method: three shards in one thread. A session sends REST requests, its backend records its
//         queries, and the test passes them on; the replies and the next queries show the answers.
#include "server/shard_queries.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "server/shard_cursor.hpp"
#include "tests/unit/server/task_side.hpp"

namespace sluice::server {
namespace {

class ShardQueriesTest : public ::testing::Test {
 protected:
  void turn_all() {
    for (TaskSide* side : {&first_, &second_, &third_}) side->turn();
  }
  std::string key_of(uint32_t shard) const {
    std::string key;
    for (int number = 0; key.empty() || first_.mailboxes.shard_of(key) != shard; ++number) {
      key = "key" + std::to_string(number);
    }
    return key;
  }
  static void add_key(TaskSide& side, const std::string& key) {
    const api::Entry entry{.key_data = key.data(), .key_bytes = static_cast<uint16_t>(key.size())};
    api::Verdict verdict{};
    api::Detail detail;
    api::WaiterId waiter{};
    side.keys.decide({&entry, 1}, {{&verdict, 1}, {&detail, 1}, {&waiter, 1}}, {});
    ASSERT_EQ(verdict, api::Verdict::approved);
  }

  // A session of the first shard; its generation is not that of `ended_session`.
  session::Session& open() {
    session::Session& session = first_.sessions.open_http(first_.context, first_.io, {0, 2});
    session.begin();
    return session;
  }
  void get(session::Session& session, const std::string& path) {
    const std::string text = "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n";
    received_.resize(text.size());
    std::memcpy(received_.data(), text.data(), text.size());
    session.on_received(std::as_writable_bytes(std::span(received_)));
    session.end_turn();
  }
  // Answers the query under way, and lets the session write its reply.
  void answer(session::Session& session) {
    for (int turn = 0; turn < 5; ++turn) turn_all();
    session.end_turn();
  }
  std::string last_asked() const {
    return first_.backend.queries.empty() ? "nothing" : first_.backend.queries.back();
  }
  std::string reply() const { return first_.io.sent.empty() ? "" : first_.io.sent.back(); }
  static std::string page_at(ShardCursor cursor) {
    return "page " + std::to_string(cursor.number());
  }

  WorkerGroup worker_group_{{.shards = 3}};
  TaskSide first_{worker_group_, 0};
  TaskSide second_{worker_group_, 1};
  TaskSide third_{worker_group_, 2};
  std::vector<char> received_;
};

TEST_F(ShardQueriesTest, asks_the_shard_that_owns_the_key_and_waits_for_it) {
  first_.queries.inspect(first_.ended_session, 7, key_of(1));
  EXPECT_TRUE(first_.awaits(7));
  turn_all();
  EXPECT_TRUE(first_.awaits(7));
  turn_all();
  EXPECT_FALSE(first_.awaits(7));
  EXPECT_TRUE(first_.context.room_made);
}

TEST_F(ShardQueriesTest, answers_queries_about_own_keys_at_once) {
  first_.queries.inspect(first_.ended_session, 7, key_of(0));
  EXPECT_FALSE(first_.awaits(7));
  EXPECT_TRUE(first_.mailboxes.idle());
}

TEST_F(ShardQueriesTest, statistics_query_goes_from_shard_to_shard) {
  first_.queries.metrics(first_.ended_session, 1);
  first_.queries.count_keys(first_.ended_session, 2);
  first_.queries.top(first_.ended_session, 3, 10);
  for (int turn = 0; turn < 5; ++turn) turn_all();
  EXPECT_EQ(first_.statistics_taken, 3);
  EXPECT_EQ(second_.statistics_taken, 3);
  EXPECT_EQ(third_.statistics_taken, 3);
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_FALSE(first_.awaits(id));
}

TEST_F(ShardQueriesTest, a_session_gets_the_state_of_its_key) {
  const std::string key = key_of(1);
  add_key(second_, key);
  session::Session& session = open();
  get(session, "/debug/" + key);
  first_.queries.inspect(session, 7, key);
  EXPECT_EQ(reply(), "");
  answer(session);
  EXPECT_TRUE(reply().starts_with("HTTP/1.1 200")) << reply();
  EXPECT_NE(reply().find(key), std::string::npos) << reply();
}

TEST_F(ShardQueriesTest, session_gets_not_found_for_an_unknown_key) {
  const std::string key = key_of(1);
  add_key(first_, key);  // not the owner: the query must not reach it
  session::Session& session = open();
  get(session, "/debug/" + key);
  first_.queries.inspect(session, 7, key);
  answer(session);
  EXPECT_TRUE(reply().starts_with("HTTP/1.1 404")) << reply();
}

// GET /debug shows at most 100,000 keys sorted; each shard alone has fewer.
TEST_F(ShardQueriesTest, a_count_is_the_sum_of_all_shards) {
  add_key(first_, "some");
  first_.keys_counted = 50'000;
  second_.keys_counted = 30'000;
  for (const uint32_t third_keys : {20'000U, 20'001U}) {
    third_.keys_counted = third_keys;
    session::Session& session = open();
    get(session, "/debug");
    ASSERT_EQ(last_asked(), "count");
    first_.queries.count_keys(session, 1);
    answer(session);
    ASSERT_EQ(last_asked(), "page 0");
    first_.queries.page(session, 1, 0, 10);
    answer(session);
    // Unsorted keys are written before the next page arrives.
    const bool is_sorted = reply().empty();
    EXPECT_EQ(is_sorted, third_keys == 20'000);
    first_.sessions.end({0, 2});
  }
}

TEST_F(ShardQueriesTest, pages_lead_through_a_shard_and_then_through_the_next_ones) {
  for (const char* key : {"a", "b"}) add_key(first_, key);
  add_key(second_, "c");
  add_key(third_, "d");
  const uint64_t middle = first_.keys.page(0, 1, {}).next_cursor;
  ASSERT_NE(middle, 0U);
  ASSERT_EQ(first_.keys.page(0, 1, {}).keys.size(), 1U);

  session::Session& session = open();
  get(session, "/debug");
  first_.queries.count_keys(session, 1);
  answer(session);
  first_.queries.page(session, 1, 0, 1);
  answer(session);
  ASSERT_EQ(last_asked(), page_at({.shard = 0, .place = middle}));
  first_.queries.page(session, 1, ShardCursor{.shard = 0, .place = middle}.number(), 10);
  answer(session);
  ASSERT_EQ(last_asked(), page_at({.shard = 1}));
  first_.queries.page(session, 1, ShardCursor{.shard = 1}.number(), 10);
  answer(session);
  ASSERT_EQ(last_asked(), page_at({.shard = 2}));
  EXPECT_EQ(reply(), "");
  first_.queries.page(session, 1, ShardCursor{.shard = 2}.number(), 10);
  answer(session);
  EXPECT_EQ(last_asked(), page_at({.shard = 2}));  // that was the last page
  std::string keys;
  for (const char* key : {"a", "b", "c", "d"}) {
    if (reply().find("\"" + std::string(key) + "\":") != std::string::npos) keys += key;
  }
  EXPECT_EQ(keys, "abcd") << reply();
}

TEST_F(ShardQueriesTest, cursor_of_no_shard_ends_the_pages) {
  add_key(third_, "last");
  for (const uint64_t cursor : {ShardCursor{.shard = 3}.number(), UINT64_MAX}) {
    session::Session& session = open();
    get(session, "/debug");
    first_.queries.count_keys(session, 1);
    answer(session);
    const size_t asked = first_.backend.queries.size();
    first_.queries.page(session, 1, cursor, 10);
    answer(session);
    EXPECT_EQ(first_.backend.queries.size(), asked);
    EXPECT_TRUE(reply().starts_with("HTTP/1.1 200")) << reply();
    EXPECT_EQ(reply().find("last"), std::string::npos) << reply();
    first_.io.sent.clear();
    first_.sessions.end({0, 2});
  }
}

TEST_F(ShardQueriesTest, a_session_gets_the_metrics_of_all_shards) {
  third_.keys_counted = 5;
  session::Session& session = open();
  get(session, "/metrics");
  first_.queries.metrics(session, 1);
  answer(session);
  EXPECT_NE(reply().find("text/plain; version=0.0.4"), std::string::npos) << reply();
  EXPECT_NE(reply().find("sluicegate_keys{shard=\"2\"} 5"), std::string::npos) << reply();
}

TEST_F(ShardQueriesTest, a_session_gets_the_top_as_json) {
  session::Session& session = open();
  get(session, "/top");
  first_.queries.top(session, 1, 3);
  answer(session);
  EXPECT_NE(reply().find("application/json"), std::string::npos) << reply();
}

TEST_F(ShardQueriesTest, bounds_queries_by_the_slots) {
  const std::string key = key_of(1);
  for (uint64_t id = 0; id < first_.slots.count(); ++id) {
    ASSERT_TRUE(first_.slots.has_room());
    first_.queries.inspect(first_.ended_session, id, key);
  }
  EXPECT_FALSE(first_.slots.has_room());
  turn_all();
  turn_all();
  EXPECT_TRUE(first_.slots.has_room());
}

}  // namespace
}  // namespace sluice::server
