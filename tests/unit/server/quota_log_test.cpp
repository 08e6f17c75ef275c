// Goal: changes of quotas are logged with their peers, and subjects without a quota only so often.
// Method: the log writes into a file, which the test reads back.
#include "server/quota_log.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "log_fixture.hpp"

namespace sluice::server {
namespace {

using api::QuotaCode;
using api::QuotaOp;
using test::Json;

class QuotaLogTest : public test::LogTest {
 protected:
  static void log_change(QuotaOp op, const std::string& subject, QuotaCode code = QuotaCode::ok,
                         std::string_view peer = "192.0.2.7:51234") {
    api::QuotaBatch batch;
    batch.calls.push_back({.op = op});
    if (!subject.empty()) {
      batch.subjects.push_back(subject);
      batch.calls[0].subjects_count = 1;
    }
    if (op == QuotaOp::put) {
      batch.new_quotas.push_back(
          {.limits =
               {{.name = "tpm", .metric = api::Metric::tokens, .amount = 5, .period_ms = 60'000}},
           .overtakers_max = 1});
    }
    batch.make_answers();
    batch.answers[0].code = code;
    if (QuotaLog::is_logged(batch)) QuotaLog::log_change(batch, peer);
  }

  static base::Now at(int64_t ns) { return {.monotonic_ns = ns, .wall_ns = 0}; }
};

TEST_F(QuotaLogTest, logs_changes_with_their_peer) {
  log_change(QuotaOp::put, "gpt");
  log_change(QuotaOp::remove, "gpt");
  log_change(QuotaOp::reset, "gpt");
  log_change(QuotaOp::reset_all, "");
  const std::vector<Json> reported = lines();
  ASSERT_EQ(reported.size(), 4u);
  EXPECT_EQ(reported[0], Json::parse(R"({"level": "INFO", "message": "quota put",
      "peer": "192.0.2.7:51234", "subject": "gpt", "quota": {"limits": [{"name": "tpm",
      "metric": "tokens", "amount": 5, "period_ms": 60000, "kind": "sliding"}],
      "overtakers": 1}})"));
  EXPECT_EQ(reported[1], Json::parse(R"({"level": "INFO", "message": "quota removed",
      "peer": "192.0.2.7:51234", "subject": "gpt"})"));
  EXPECT_EQ(reported[2]["message"], "usage reset");
  EXPECT_EQ(reported[3], Json::parse(R"({"level": "INFO", "message": "usage of all subjects reset",
      "peer": "192.0.2.7:51234"})"));
}

TEST_F(QuotaLogTest, logs_the_number_of_quotas_that_another_node_hands_over) {
  api::QuotaBatch batch;
  batch.subjects = {"a", "b", "c"};
  for (uint32_t index = 0; index < 3; ++index) {
    batch.calls.push_back({.op = QuotaOp::put,
                           .flags = api::quota_flag::handed_over,
                           .subjects_count = 1,
                           .first_subject = index});
  }
  batch.new_quotas.resize(3);
  batch.make_answers();
  for (const size_t index : {0U, 1U, 2U}) batch.answers[index].code = QuotaCode::subjects_full;
  EXPECT_FALSE(QuotaLog::is_logged(batch));
  batch.answers[1].code = QuotaCode::ok;
  batch.answers[2].code = QuotaCode::memory_only;
  ASSERT_TRUE(QuotaLog::is_logged(batch));
  QuotaLog::log_change(batch, "192.0.2.7:51234");
  EXPECT_EQ(lines().at(0), Json::parse(R"({"level": "INFO", "message":
      "another instance has handed over quotas of subjects that it owned",
      "peer": "192.0.2.7:51234", "quotas": 2})"));
}

TEST_F(QuotaLogTest, logs_no_refused_change) {
  log_change(QuotaOp::put, "gpt", QuotaCode::subjects_full);
  log_change(QuotaOp::remove, "gpt", QuotaCode::no_such_quota);
  log_change(QuotaOp::put, "gpt", QuotaCode::not_durable);
  EXPECT_TRUE(lines().empty());
}

TEST_F(QuotaLogTest, logs_a_change_that_a_restart_may_undo_as_such) {
  log_change(QuotaOp::remove, "gpt", QuotaCode::memory_only);
  EXPECT_EQ(lines().at(0), Json::parse(R"({"level": "INFO", "message": "quota removed",
      "peer": "192.0.2.7:51234", "subject": "gpt", "durable": false})"));
}

TEST_F(QuotaLogTest, logs_a_peer_that_has_left_and_names_of_any_bytes) {
  log_change(QuotaOp::remove, "\xFF" + std::string(2'000, 'x'), QuotaCode::ok, "");
  const std::vector<Json> reported = lines();
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_EQ(reported[0]["peer"], "gone");
  EXPECT_EQ(reported[0]["subject"], "\xEF\xBF\xBD" + std::string(1'023, 'x') + "\u2026");
}

TEST_F(QuotaLogTest, cuts_names_between_characters) {
  std::string name = "abc";
  for (int i = 0; i < 300; ++i)
    name += "\U0001F642";  // four bytes each: one of them spans byte 1,024
  log_change(QuotaOp::remove, name);
  EXPECT_EQ(lines().at(0)["subject"], name.substr(0, 1'023) + "\u2026");
}

TEST_F(QuotaLogTest, warns_of_unknown_subjects_once_a_minute) {
  QuotaLog log(3);
  log.note_unknown("first", 2, at(5));
  log.note_unknown("second", 3, at(unknown_pause_ns + 4));
  log.note_unknown("third", 10, at(unknown_pause_ns + 5));
  const std::vector<Json> reported = lines();
  ASSERT_EQ(reported.size(), 2u);
  EXPECT_EQ(reported[0], Json::parse(R"({"level": "WARN", "message": "subject without a quota",
      "subject": "first", "times": 2, "shard": 3})"));
  EXPECT_EQ(reported[1]["subject"], "third");
  EXPECT_EQ(reported[1]["times"], 8);
}

TEST_F(QuotaLogTest, logs_no_batch_that_changes_nothing) {
  api::QuotaBatch batch;
  EXPECT_FALSE(QuotaLog::is_logged(batch));
  batch.calls.push_back({.op = QuotaOp::reserve});
  batch.make_answers();
  batch.answers[0].code = QuotaCode::ok;
  EXPECT_FALSE(QuotaLog::is_logged(batch));
}

TEST_F(QuotaLogTest, warns_of_a_file_that_names_more_subjects_than_there_is_room_for) {
  policy::QuotaRules rules{.rules = {{.subject = "a"}, {.subject = "b"}}};
  rules.rules.push_back({.subject = ".", .is_regex = true});  // matches any number of subjects
  warn_of_too_many_names(rules, 2);
  warn_of_too_many_names(rules, 1);
  const std::vector<Json> reported = lines();
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_EQ(reported[0].at("level"), "WARN");
  EXPECT_EQ(reported[0].at("subjects"), 2);
  EXPECT_EQ(reported[0].at("maxSubjects"), 1);
}

}  // namespace
}  // namespace sluice::server
