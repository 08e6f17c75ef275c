// Method: heads are kept and answered as a session does; the test reads the log's lines back.
#include "session/request_log.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "log/log.hpp"
#include "tests/support/log_lines.hpp"

namespace sluice::session {
namespace {

using Line = log::Fields;

class RequestLogTest : public testing::Test {
 protected:
  void start(log::Level level = log::Level::info) { log_lines_.start(level); }
  std::vector<Line> lines() { return log_lines_.lines(); }

  static std::string head(const std::string& target, const std::string& headers = {}) {
    return "POST " + target + " HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n";
  }

  static std::span<const std::byte> response(const std::string& text) {
    return std::as_bytes(std::span{text});
  }

  std::vector<char> memory_ = std::vector<char>(RequestLog::memory_bytes);
  support::LogLines log_lines_;
};

constexpr AccessLog everything{.of_2xx = true, .of_4xx = true, .of_5xx = true};

TEST_F(RequestLogTest, keeps_nothing_when_nothing_is_logged) {
  RequestLog log(memory_, everything);  // the log has not started
  const std::string large(RequestLog::memory_bytes, 'x');
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(log.has_room(large));
    log.keep(large, {});
  }
  log.answered(200, 0);
  log.abandoned();
  EXPECT_FALSE(log.warns());
}

// Requests of other shards' keys may be on their way all the time.
TEST_F(RequestLogTest, has_room_again_for_each_head_that_is_forgotten) {
  start();
  RequestLog log(memory_, everything);
  const std::string headers = "X: " + std::string(4'900, 'x') + "\r\n";
  for (int i = 0; i < 3; ++i) log.keep(head("/rate/" + std::to_string(i), headers), {});
  for (int i = 3; i < 6; ++i) {
    const std::string next = head("/rate/" + std::to_string(i), headers);
    EXPECT_FALSE(log.has_room(next));
    log.answered(200, 0);
    ASSERT_TRUE(log.has_room(next));
    log.keep(next, {});
  }
  for (int i = 3; i < 6; ++i) log.answered(200, 0);
  const std::vector<Line> reported = lines();
  ASSERT_EQ(reported.size(), 6U);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(reported[i]["request"]["path"], "/rate/" + std::to_string(i));
  }
}

TEST_F(RequestLogTest, logs_requests_in_order) {
  start();
  RequestLog log(memory_, everything);
  for (const char* target : {"/rate/a", "/rate/b?x=1", "/none"}) log.keep(head(target), {});
  log.answered(response("HTTP/1.1 200 OK\r\n\r\n42"));
  log.answered(response("HTTP/1.1 429 Too Many Requests\r\n\r\n"));
  log.keep(head("/rate/c"), {});
  log.answered(response("HTTP/1.1 404 Not Found\r\n\r\nbody"));
  log.abandoned();
  const std::vector<Line> reported = lines();
  ASSERT_EQ(reported.size(), 5U);
  const std::vector<std::string> paths = {"/rate/a", "/rate/b", "/none"};
  const std::vector<int> statuses = {200, 429, 404};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(reported[i]["request"]["path"], paths[i]);
    EXPECT_EQ(reported[i]["response"]["status"], statuses[i]);
  }
  EXPECT_EQ(reported[0]["response"]["length"], 2);
  EXPECT_EQ(reported[1]["request"]["query"], "x=1");
  EXPECT_EQ(reported[2]["error"]["message"], "Not Found");
  EXPECT_EQ(reported[3]["key"], "c") << "its client left";
  EXPECT_EQ(reported[4]["response"]["status"], 499);
  EXPECT_EQ(reported[4]["request"]["path"], "/rate/c");
}

TEST_F(RequestLogTest, logs_the_only_request_where_its_head_lies) {
  start();
  RequestLog log({}, everything);
  const std::string text = head("/rate/a", "X-Correlation-ID: c\r\n");
  log.keep_view(text, {.monotonic_ns = 1, .wall_ns = 784'111'777'000'000'000});
  log.refused("cause");
  EXPECT_TRUE(log.answered(400, 7));
  const std::vector<Line> reported = lines();
  ASSERT_EQ(reported.size(), 2U);
  EXPECT_EQ(reported[0]["correlation-id"], "c");
  EXPECT_EQ(reported[0]["key"], "a");
  EXPECT_EQ(reported[1]["request"]["path"], "/rate/a");
  EXPECT_TRUE(reported[1]["request"]["time"].get<std::string>().starts_with("1994-11-06T08:49:37"));
  EXPECT_EQ(reported[1]["response"]["length"], 7);
}

TEST_F(RequestLogTest, has_room_for_any_head_when_the_largest_is_answered) {
  start();
  RequestLog log(memory_, {});
  const std::string largest = head("/rate/k", "X: " + std::string(8'000, 'x') + "\r\n");
  log.keep(largest, {});
  EXPECT_TRUE(log.has_room(head("/rate/k")));
  log.keep(head("/rate/k", "X: " + std::string(500, 'x') + "\r\n"), {});
  EXPECT_FALSE(log.has_room(largest));
  log.answered(200, 0);
  EXPECT_TRUE(log.has_room(largest));
  log.keep(largest, {});
  log.answered(200, 0);
  log.answered(200, 0);
  EXPECT_TRUE(lines().empty());
}

TEST_F(RequestLogTest, warns_with_the_clients_correlation_id_or_one_of_its_own) {
  start();
  RequestLog log(memory_, {});
  log.keep(head("/rate/%20a%2Fb?cost=0", "x-correlation-id:  mine \r\n"), {});
  log.refused("cost out of bounds");
  log.answered(400, 0);
  log.keep(head("http://h/rate/k/1"), {});
  log.released_unknown();
  log.answered(200, 0);
  const std::vector<Line> reported = lines();
  ASSERT_EQ(reported.size(), 2U);
  EXPECT_EQ(reported[0]["correlation-id"], "mine");
  EXPECT_EQ(reported[0]["key"], "a/b");
  EXPECT_EQ(reported[1]["key"], "k");
  EXPECT_EQ(reported[1]["correlation-id"].get<std::string>().substr(0, 4), "gcc-");
}

TEST_F(RequestLogTest, obeys_switches_and_level) {
  start(log::Level::error);
  RequestLog log(memory_, everything);
  EXPECT_FALSE(log.warns());
  for (const uint16_t status : std::initializer_list<uint16_t>{200, 400, 503}) {
    log.keep(head("/rate/k"), {});
    log.refused("not logged");
    log.answered(status, 0);
  }
  log.keep(head("/rate/k"), {});
  log.abandoned();
  const std::vector<Line> reported = lines();
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_EQ(reported[0]["level"], "ERROR");
  EXPECT_EQ(reported[0]["message"], "Service Unavailable");
}

}  // namespace
}  // namespace sluice::session
