// Goal: a call is charged to every limit of every subject, or to none.
// Method: two subjects, the later of which refuses; once where all limits slide, once where not.
#include "quota/limited_subject_meters.hpp"

#include <gtest/gtest.h>

#include "unit/quota/limited_subjects_driver.hpp"

namespace sluice::quota {
namespace {

using api::Ceiling;
using api::LimitKind;
using api::Metric;
using api::QuotaCode;
using limiter::Shares;

api::Limit sliding(uint64_t amount) {
  return limit_of("s", Metric::tokens, amount, LimitKind::sliding);
}

Shares token_shares(uint64_t amount) {
  return Shares({.requests = 1, .input_tokens = amount});
}

TEST(LimitedSubjectMeters, charge_every_limit_of_every_subject) {
  LimitedSubjectsDriver driver;
  driver.add({sliding(100), rpm(5)});
  driver.add({tpm(100)});
  EXPECT_TRUE(charge_if_fits(driver.limited, token_shares(40), driver.now));
  EXPECT_EQ(driver.used(0, 0), 40U);
  EXPECT_EQ(driver.used(0, 1), 1U);
  EXPECT_EQ(driver.used(1, 0), 40U);
  EXPECT_EQ(driver.open(1, 0), 40U);
}

TEST(LimitedSubjectMeters, a_refusal_charges_none_where_all_limits_slide) {
  LimitedSubjectsDriver driver;
  driver.add({sliding(100), sliding(200)});
  driver.add({sliding(50)});
  EXPECT_FALSE(charge_if_fits(driver.limited, token_shares(60), driver.now));
  for (const auto& [each, limit] : {std::pair{0, 0}, {0, 1}, {1, 0}}) {
    EXPECT_EQ(driver.used(each, limit), 0U);
    EXPECT_EQ(driver.open(each, limit), 0U);
  }
  EXPECT_TRUE(charge_if_fits(driver.limited, token_shares(50), driver.now));
}

TEST(LimitedSubjectMeters, a_refusal_charges_none_where_some_limits_do_not_slide) {
  LimitedSubjectsDriver driver;
  driver.add({tpm(100)});
  driver.add({sliding(50)});
  EXPECT_FALSE(subjects_fit(driver.limited, token_shares(60), driver.now));
  EXPECT_FALSE(charge_if_fits(driver.limited, token_shares(60), driver.now));
  EXPECT_EQ(driver.used(0, 0), 0U);
}

// A hold that was asked for before others used up all that can be counted.
TEST(LimitedSubjectMeters, a_charge_after_the_question_stops_at_the_most) {
  LimitedSubjectsDriver driver;
  driver.add({sliding(100), tpm(100)});
  for (const limiter::MeterShape& shape : driver.limited[0].quota->shapes) {
    charge_used(shape, driver.limited[0].words, limits::amount_max, driver.now);
  }
  roll_and_charge(driver.limited, token_shares(1), driver.now);
  EXPECT_EQ(driver.used(0, 0), limits::amount_max);
  EXPECT_EQ(driver.used(0, 1), limits::amount_max);
}

// Of a sliding limit and of a window, what had its time when the verdict comes.
TEST(LimitedSubjectMeters, a_charge_after_the_question_forgets_what_has_ended) {
  LimitedSubjectsDriver driver;
  driver.add({sliding(100)});
  driver.add({tpm(100)});
  charge(driver.limited, token_shares(90), driver.now);
  driver.now.ns += 2 * 86'400 * base::ns_per_s;
  roll_and_charge(driver.limited, token_shares(7), driver.now);
  EXPECT_EQ(driver.used(0, 0), 7U);
  EXPECT_EQ(driver.used(1, 0), 7U);
}

TEST(LimitedSubjectMeters, what_others_hold_of_sliding_limits_does_not_fit) {
  LimitedSubjectsDriver driver;
  driver.add({sliding(100)});
  Held held;
  held.add({.input_tokens = 60});
  driver.limited[0].held = &held;
  EXPECT_TRUE(subjects_fit(driver.limited, token_shares(40), driver.now));
  EXPECT_FALSE(subjects_fit(driver.limited, token_shares(41), driver.now));
  EXPECT_FALSE(subjects_fit(driver.limited, token_shares(UINT64_MAX), driver.now));
}

TEST(LimitedSubjectMeters, slots_are_counted_by_open_reservations) {
  LimitedSubjectsDriver driver;
  driver.add({slots(2)}, 1);
  EXPECT_TRUE(subjects_fit(driver.limited, token_shares(1), driver.now));
  driver.limited[0].open = 2;
  EXPECT_FALSE(subjects_fit(driver.limited, token_shares(1), driver.now));
}

TEST(LimitedSubjectMeters, slots_without_a_number_always_fit_or_never) {
  LimitedSubjectsDriver driver;
  driver.add({with(slots(0), Ceiling::unlimited)}, 7);
  EXPECT_TRUE(subjects_fit(driver.limited, token_shares(1), driver.now));
  driver.add({with(slots(5), Ceiling::block)});
  EXPECT_FALSE(subjects_fit(driver.limited, token_shares(1), driver.now));
}

TEST(LimitedSubjectMeters, past_usage_is_charged_beyond_the_limit_and_not_open) {
  LimitedSubjectsDriver driver;
  driver.add({tpm(100)});
  const LimitedSubject& each = driver.limited[0];
  charge_used(each.quota->shapes[0], each.words, 150, driver.now);
  EXPECT_EQ(driver.used(0, 0), 150U);
  EXPECT_EQ(driver.open(0, 0), 0U);
}

TEST(LimitedSubjectMeters, admission_reports_whether_anything_limits) {
  LimitedSubjectsDriver driver;
  EXPECT_EQ(admission_code(driver.limited), QuotaCode::unknown_subject_allowed);
  driver.add({with(tpm(0), Ceiling::unlimited)});
  EXPECT_EQ(admission_code(driver.limited), QuotaCode::unlimited);
  driver.add({tpm(1)});
  EXPECT_EQ(admission_code(driver.limited), QuotaCode::ok);
}

}  // namespace
}  // namespace sluice::quota
