// Goal: answers have a row for each subject that is asked for, and pages one for each there is.
// Method: cases by hand, through a store; pages of all sizes while subjects come and go.
#include "quota/answer_subjects.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::QuotaAnswer;
using api::QuotaCode;
using api::QuotaOp;
using api::QuotaSource;

TEST(AnswerSubjects, usage_of_an_unused_subject) {
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

TEST(AnswerSubjects, usage_of_several_subjects_in_the_order_asked) {
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

TEST(Page, lists_each_subject_once_whatever_its_size) {
  StoreDriver driver;
  Names all;
  for (int name = 0; name < 23; ++name) {
    all.push_back(numbered("s", name));
    driver.put(all.back(), {tpm(10)});
  }
  for (const uint32_t rows_max : {1U, 2U, 7U, 22U, 23U, 24U, 256U}) {
    const Names reported = page_through(driver, rows_max);
    EXPECT_EQ(reported.size(), all.size()) << rows_max;
    EXPECT_EQ(std::set(reported.begin(), reported.end()), std::set(all.begin(), all.end()))
        << rows_max;
  }
}

TEST(Page, of_no_subjects_is_empty_and_the_last) {
  StoreDriver driver;
  EXPECT_EQ(page_through(driver, 10), Names{});
}

TEST(Page, lists_those_that_live_throughout_once_while_others_come_and_go) {
  StoreDriver driver;
  for (int name = 0; name < 20; ++name) driver.put(numbered("s", name), {tpm(10)});
  std::map<std::string, int> reported;
  uint64_t cursor = 0;
  int step = 0;
  do {
    const QuotaAnswer answer = driver.ask({.op = QuotaOp::page, .limit = 3, .cursor = cursor});
    for (uint32_t at = 0; at < answer.rows_count; ++at) {
      ++reported[std::string(driver.batch.name_of(driver.batch.rows[answer.first_row + at]))];
    }
    cursor = answer.next_cursor;
    driver.op(QuotaOp::remove, {}, {numbered("s", step)});
    driver.put(numbered("new", step++), {tpm(10)});
  } while (cursor != 0);
  for (int name = step; name < 20; ++name) EXPECT_EQ(reported[numbered("s", name)], 1) << name;
}

}  // namespace
}  // namespace sluice::quota
