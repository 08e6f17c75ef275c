// Goal: an operator learns that quotas move to other nodes, that this cannot be or is refused, and
//       that all have moved.
#include "server/moved_quota_log.hpp"

#include <gtest/gtest.h>

#include "log_fixture.hpp"

namespace sluice::server {
namespace {

using MovedQuotaLogTest = test::LogTest;

TEST_F(MovedQuotaLogTest, logs_the_start_and_when_the_last_one_is_taken) {
  MovedQuotaLog log;
  log.add(2);
  log.add(3);
  log.log_start(true);
  log.note_taken(4);
  EXPECT_EQ(log.left(), 1U);
  log.note_taken(0);
  log.note_taken(1);
  const std::vector<test::Json> logged = lines();
  ASSERT_EQ(logged.size(), 2U);
  for (const test::Json& line : logged) {
    EXPECT_EQ(line["level"], "INFO");
    EXPECT_EQ(line["quotas"], 5);
  }
  EXPECT_NE(std::string(logged[1]["message"]).find("all quotas are handed over"),
            std::string::npos);
}

TEST_F(MovedQuotaLogTest, says_nothing_without_any) {
  const MovedQuotaLog log;
  log.log_start(true);
  log.log_start(false);
  EXPECT_TRUE(lines().empty());
}

TEST_F(MovedQuotaLogTest, warns_of_a_missing_secret) {
  MovedQuotaLog log;
  log.add(2);
  log.log_start(false);
  const std::vector<test::Json> logged = lines();
  ASSERT_EQ(logged.size(), 1U);
  EXPECT_EQ(logged[0]["level"], "WARN");
  EXPECT_EQ(logged[0]["quotas"], 2);
  EXPECT_NE(std::string(logged[0]["message"]).find("--peer-secret-file"), std::string::npos);
}

TEST_F(MovedQuotaLogTest, warns_of_a_node_that_takes_none_once_a_minute) {
  MovedQuotaLog log;
  log.add(2);
  const auto note = [&log](int64_t ns) {
    log.note_refused("10.0.0.2:8080", "not_durable", {.monotonic_ns = ns, .wall_ns = 0});
  };
  for (const int64_t ns : {int64_t{1}, MovedQuotaLog::pause_ns, MovedQuotaLog::pause_ns + 1}) {
    note(ns);
  }
  const std::vector<test::Json> logged = lines();
  ASSERT_EQ(logged.size(), 2U);
  EXPECT_EQ(logged[0]["level"], "WARN");
  EXPECT_EQ(logged[0]["node"], "10.0.0.2:8080");
  EXPECT_EQ(logged[0]["reason"], "not_durable");
  EXPECT_EQ(logged[0]["quotas"], 2);
}

TEST_F(MovedQuotaLogTest, shows_a_quota_that_its_owner_calls_invalid) {
  const MovedQuotaLog log;
  const api::Limit day{.name = "rpd",
                       .kind = api::LimitKind::calendar,
                       .amount = 5,
                       .unit = api::CalendarUnit::day,
                       .time_zone = "Mars/Olympus"};
  log.note_invalid("10.0.0.2:8080", {.name = "gpt", .quota = {.limits = {day}, .profile = {}}}, 4);
  const std::vector<test::Json> logged = lines();
  ASSERT_EQ(logged.size(), 1U);
  EXPECT_EQ(logged[0]["level"], "WARN");
  EXPECT_EQ(logged[0]["node"], "10.0.0.2:8080");
  EXPECT_EQ(logged[0]["reason"], "invalid_quota");
  EXPECT_EQ(logged[0]["quotas"], 4);
  EXPECT_EQ(logged[0]["subject"], "gpt");
  EXPECT_EQ(logged[0]["quota"]["limits"][0]["time_zone"], "Mars/Olympus");
}

}  // namespace
}  // namespace sluice::server
