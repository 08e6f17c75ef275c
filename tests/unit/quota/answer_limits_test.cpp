// Goal: answers report limits as they are, and as many as the batch has room for.
// Method: cases by hand, through a store; calls that report more than a batch may hold.
#include "quota/answer_limits.hpp"

#include <gtest/gtest.h>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::LimitKind;
using api::LimitReport;
using api::Metric;
using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::QuotaSource;

TEST(AnswerLimits, reports_every_field_of_a_limit) {
  StoreDriver driver;
  driver.put("m", {tpm(100)});
  driver.record({"m"}, {.input_tokens = 30});
  driver.advance_ms(12'345);
  driver.reserve({"m"}, asking_tokens(20));
  const LimitReport report = driver.limit("m", "tpm");
  EXPECT_EQ(report.metric, Metric::tokens);
  EXPECT_EQ(report.kind, LimitKind::fixed);
  EXPECT_EQ(report.ceiling, api::Ceiling::number);
  EXPECT_EQ(report.amount, 100U);
  EXPECT_EQ(report.used, 50U);
  EXPECT_EQ(report.reserved, 20U);
  EXPECT_EQ(report.remaining, 50U);
  EXPECT_EQ(report.period_ms, 60'000);
  EXPECT_EQ(report.reset_ms, 47'655);
  EXPECT_FALSE(report.violated);
}

TEST(AnswerLimits, a_reset_is_rounded_up) {
  StoreDriver driver;
  driver.put("m", {tpm(100)});
  driver.record({"m"}, {.input_tokens = 30});
  driver.advance_ns(1);
  EXPECT_EQ(driver.limit("m", "tpm").reset_ms, 60'000);
  driver.advance_ns(999'999);
  EXPECT_EQ(driver.limit("m", "tpm").reset_ms, 59'999);
}

TEST(AnswerLimits, slots_have_no_time) {
  StoreDriver driver;
  driver.put("m", {slots(3)});
  driver.reserve({"m"}, asking_tokens(0));
  const LimitReport report = driver.limit("m", "slots");
  EXPECT_EQ(report.used, 1U);
  EXPECT_EQ(report.reserved, 1U);
  EXPECT_EQ(report.remaining, 2U);
  EXPECT_EQ(report.period_ms, 0);
  EXPECT_EQ(report.reset_ms, 0);
}

TEST(AnswerLimits, a_calendar_period_is_as_long_as_it_is) {
  StoreDriver driver;
  driver.wall_ns = 1'706'745'600 * base::ns_per_s;  // 2024-02-01
  api::Limit month = limit_of("l", Metric::tokens, 10, LimitKind::calendar, 0);
  month.unit = api::CalendarUnit::month;
  month.time_zone = "UTC";
  driver.put("m", {month});
  driver.record({"m"}, {.input_tokens = 1});
  EXPECT_EQ(driver.limit("m", "l").period_ms, 29LL * 86'400'000);
  EXPECT_EQ(driver.limit("m", "l").reset_ms, 29LL * 86'400'000);
}

TEST(AnswerLimits, limits_of_an_admission_count_it) {
  StoreDriver driver;
  driver.put("{t}a", {tpm(100)});
  driver.put("{t}b", {slots(2), rpm(9)});
  QuotaCall call = asking_tokens(20);
  call.flags = api::quota_flag::wants_limits;
  const QuotaAnswer answer = driver.reserve({"{t}a", "{t}b"}, call);
  ASSERT_EQ(answer.limits_count, 3U);
  const LimitReport* const limits = &driver.batch.limits[answer.first_limit];
  EXPECT_EQ(limits[0].subject, 0U);
  EXPECT_EQ(limits[0].used, 20U);
  EXPECT_EQ(limits[1].subject, 1U);
  EXPECT_EQ(limits[1].used, 1U);
  EXPECT_EQ(limits[2].used, 1U);
  EXPECT_FALSE(limits[0].violated || limits[1].violated || limits[2].violated);
}

// A batch with calls that would report more limits than one answer may hold.
class FullAnswer : public testing::Test {
 protected:
  FullAnswer() {
    std::vector<api::Limit> limits;
    for (int limit = 0; limit < 16; ++limit) {
      limits.push_back(limit_of(numbered("l", limit), Metric::tokens, 9));
    }
    driver_.put("m", limits);
  }
  void ask(QuotaOp op, size_t calls) {
    batch_.clear();
    QuotaCall call = asking_tokens(1);
    call.op = op;
    call.subjects_count = op == QuotaOp::page ? 0 : 1;
    call.flags = api::quota_flag::wants_limits;
    batch_.calls.assign(calls, call);
    batch_.subjects.assign(1, "m");
    batch_.make_answers();
    driver_.store.decide(batch_, driver_.now());
  }
  StoreDriver driver_;
  api::QuotaBatch batch_;
};

TEST_F(FullAnswer, leaves_limits_out_and_reports_it) {
  ask(QuotaOp::check, 257);
  EXPECT_EQ(batch_.limits.size(), limits::quota_reports_max);
  EXPECT_FALSE(batch_.answers[255].limits_left_out);
  EXPECT_EQ(batch_.answers[255].limits_count, 16U);
  EXPECT_TRUE(batch_.answers[256].limits_left_out);
  EXPECT_EQ(batch_.answers[256].code, QuotaCode::ok);
}

TEST_F(FullAnswer, of_rows_leaves_limits_out_and_reports_it) {
  ask(QuotaOp::usage, 300);
  EXPECT_LE(batch_.limits.size(), limits::quota_reports_max);
  EXPECT_EQ(batch_.rows[255].limits_count, 16U);
  EXPECT_FALSE(batch_.answers[255].limits_left_out);
  EXPECT_TRUE(batch_.answers[299].limits_left_out);
  EXPECT_EQ(batch_.rows[batch_.answers[299].first_row].limits_count, 0U);
  EXPECT_EQ(batch_.rows[batch_.answers[299].first_row].source, QuotaSource::run_time);
}

TEST_F(FullAnswer, of_pages_has_a_cursor_to_go_on_with) {
  ask(QuotaOp::page, 257);
  EXPECT_EQ(batch_.answers[255].rows_count, 1U);
  EXPECT_EQ(batch_.answers[255].next_cursor, 0U);
  EXPECT_EQ(batch_.answers[256].rows_count, 0U);
  EXPECT_NE(batch_.answers[256].next_cursor, 0U);
  const QuotaAnswer rest =
      driver_.ask({.op = QuotaOp::page, .cursor = batch_.answers[256].next_cursor});
  EXPECT_EQ(rest.rows_count, 1U);
}

}  // namespace
}  // namespace sluice::quota
