// Goal: answers tell limits, reservations and subjects as they are; a page tells each subject once.
// Method: cases by hand; pages of all sizes while subjects come and go.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::LimitKind;
using api::LimitReport;
using api::Metric;
using api::Quota;
using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::QuotaSource;
using api::ReservationState;

// --------------------------------------------------------------------------------------- limits

TEST(Told, a_limit_with_all_that_is_known_of_it) {
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

TEST(Told, a_reset_is_rounded_up) {
  StoreDriver driver;
  driver.put("m", {tpm(100)});
  driver.record({"m"}, {.input_tokens = 30});
  driver.advance_ns(1);
  EXPECT_EQ(driver.limit("m", "tpm").reset_ms, 60'000);
  driver.advance_ns(999'999);
  EXPECT_EQ(driver.limit("m", "tpm").reset_ms, 59'999);
}

TEST(Told, slots_have_no_time) {
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

TEST(Told, a_calendar_period_is_as_long_as_it_is) {
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

TEST(Told, limits_behind_an_admission_count_it) {
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

// A batch with calls that would tell more limits than one answer may hold.
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

TEST_F(FullAnswer, leaves_limits_out_and_says_so) {
  ask(QuotaOp::check, 257);
  EXPECT_EQ(batch_.limits.size(), limits::quota_reports_max);
  EXPECT_FALSE(batch_.answers[255].limits_left_out);
  EXPECT_EQ(batch_.answers[255].limits_count, 16U);
  EXPECT_TRUE(batch_.answers[256].limits_left_out);
  EXPECT_EQ(batch_.answers[256].code, QuotaCode::ok);
}

TEST_F(FullAnswer, of_rows_leaves_limits_out_and_says_so) {
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

// --------------------------------------------------------------------------------- reservations

TEST(Told, a_reservation_with_its_subjects) {
  StoreDriver driver;
  driver.put("{t}a", {tpm(100)});
  driver.put("{t}b", {rpm(10)});
  const api::Amounts amounts{.requests = 2, .input_tokens = 20, .output_tokens = 3, .cost = 7};
  const uint64_t id = driver.reserve({"{t}a", "{t}x", "{t}b"}, asking(amounts)).reservation;
  driver.advance_ms(1'000);
  const QuotaAnswer answer = driver.ask({.op = QuotaOp::show, .reservation = id});
  EXPECT_EQ(answer.code, QuotaCode::ok);
  EXPECT_EQ(answer.state, ReservationState::open);
  EXPECT_EQ(answer.amounts, amounts);
  EXPECT_EQ(answer.lifetime_ms, 59'000U);
  ASSERT_EQ(answer.rows_count, 2U);
  EXPECT_EQ(driver.batch.name_of(driver.batch.rows[0]), "{t}a");
  EXPECT_EQ(driver.batch.name_of(driver.batch.rows[1]), "{t}b");
  EXPECT_EQ(driver.batch.rows[1].open_reservations, 1U);
}

// ------------------------------------------------------------------------------------- subjects

TEST(Told, usage_of_a_subject_that_nobody_has_used) {
  StoreDriver driver;
  policy::QuotaBook book(
      {.rules = {{.subject = ".", .is_regex = true, .quota = quota_of({tpm(10)})}}});
  driver.store.adopt(book, driver.now());
  const api::SubjectRow row = driver.row("m");
  EXPECT_EQ(row.source, QuotaSource::file);
  ASSERT_EQ(row.limits_count, 1U);
  EXPECT_EQ(driver.batch.limits[row.first_limit].remaining, 10U);
  EXPECT_EQ(driver.batch.limits[row.first_limit].reset_ms, 0);
  EXPECT_EQ(driver.store.subjects_count(), 0U);
}

TEST(Told, usage_of_several_subjects_in_the_order_asked) {
  StoreDriver driver;
  driver.put("a", {tpm(1)});
  driver.put("b", {tpm(2)});
  const QuotaAnswer answer = driver.op(QuotaOp::usage, {}, {"b", "unknown", "a"});
  ASSERT_EQ(answer.rows_count, 3U);
  EXPECT_EQ(driver.batch.name_of(driver.batch.rows[0]), "b");
  EXPECT_EQ(driver.batch.limits[driver.batch.rows[0].first_limit].amount, 2U);
  EXPECT_EQ(driver.batch.rows[1].source, QuotaSource::none);
  EXPECT_EQ(driver.batch.rows[1].limits_count, 0U);
  EXPECT_EQ(driver.batch.limits[driver.batch.rows[2].first_limit].amount, 1U);
  EXPECT_EQ(driver.op(QuotaOp::usage, {}, {"a", "a"}).code, QuotaCode::invalid_subject);
}

Names page_through(StoreDriver& driver, uint32_t rows_max) {
  Names names;
  uint64_t cursor = 0;
  do {
    const QuotaAnswer answer =
        driver.ask({.op = QuotaOp::page, .limit = rows_max, .cursor = cursor});
    EXPECT_LE(answer.rows_count, rows_max);
    for (uint32_t at = 0; at < answer.rows_count; ++at) {
      names.emplace_back(driver.batch.name_of(driver.batch.rows[answer.first_row + at]));
    }
    cursor = answer.next_cursor;
  } while (cursor != 0);
  return names;
}

TEST(Page, tells_each_subject_once_whatever_its_size) {
  StoreDriver driver;
  Names all;
  for (int name = 0; name < 23; ++name) {
    all.push_back(numbered("s", name));
    driver.put(all.back(), {tpm(10)});
  }
  for (const uint32_t rows_max : {1U, 2U, 7U, 22U, 23U, 24U, 256U}) {
    const Names told = page_through(driver, rows_max);
    EXPECT_EQ(told.size(), all.size()) << rows_max;
    EXPECT_EQ(std::set(told.begin(), told.end()), std::set(all.begin(), all.end())) << rows_max;
  }
}

TEST(Page, of_nobody_is_empty_and_the_last) {
  StoreDriver driver;
  EXPECT_EQ(page_through(driver, 10), Names{});
}

TEST(Page, tells_those_that_live_throughout_once_while_others_come_and_go) {
  StoreDriver driver;
  for (int name = 0; name < 20; ++name) driver.put(numbered("s", name), {tpm(10)});
  std::map<std::string, int> told;
  uint64_t cursor = 0;
  int step = 0;
  do {
    const QuotaAnswer answer = driver.ask({.op = QuotaOp::page, .limit = 3, .cursor = cursor});
    for (uint32_t at = 0; at < answer.rows_count; ++at) {
      ++told[std::string(driver.batch.name_of(driver.batch.rows[answer.first_row + at]))];
    }
    cursor = answer.next_cursor;
    driver.op(QuotaOp::remove, {}, {numbered("s", step)});
    driver.put(numbered("new", step++), {tpm(10)});
  } while (cursor != 0);
  for (int name = step; name < 20; ++name) EXPECT_EQ(told[numbered("s", name)], 1) << name;
}

}  // namespace
}  // namespace sluice::quota
