// Goal:   a refusal names the limit with the highest precedence, and has the latest of all times.
// Method: limits that are used up, one kind at a time and then beside each other.
#include "quota/obstacle.hpp"

#include <gtest/gtest.h>

#include "unit/quota/limited_subjects_driver.hpp"

namespace sluice::quota {
namespace {

using api::Ceiling;
using api::Metric;
using api::QuotaCode;
using limiter::Shares;

Shares tokens(uint64_t amount) {
  return Shares({.requests = 1, .input_tokens = amount, .cost = 1});
}

Obstacle found(LimitedSubjectsDriver& driver, uint64_t amount) {
  return find_obstacle(driver.limited, tokens(amount), driver.now);
}

TEST(FindObstacle, finds_none_where_all_fits) {
  LimitedSubjectsDriver driver;
  driver.add({tpm(100), slots(1)});
  const Obstacle obstacle = found(driver, 100);
  EXPECT_EQ(obstacle.code, QuotaCode::ok);
  EXPECT_EQ(obstacle.fits_at_ns, driver.now.ns);
  EXPECT_EQ(obstacle.earliest_ns, driver.now.ns);
}

TEST(FindObstacle, a_window_fits_at_its_end_and_earlier_when_all_is_refunded) {
  LimitedSubjectsDriver driver;
  driver.add({tpm(100)});
  charge(driver.limited, tokens(80), driver.now);
  const Obstacle obstacle = found(driver, 30);
  EXPECT_EQ(obstacle.code, QuotaCode::tpm_exceeded);
  EXPECT_EQ(obstacle.fits_at_ns, driver.now.ns + 60 * base::ns_per_s);
  EXPECT_EQ(obstacle.earliest_ns, driver.now.ns);
}

TEST(FindObstacle, the_end_of_a_held_slot_is_unknown) {
  LimitedSubjectsDriver driver;
  driver.add({slots(1)}, 1);
  const Obstacle obstacle = found(driver, 1);
  EXPECT_EQ(obstacle.code, QuotaCode::concurrency_exceeded);
  EXPECT_EQ(obstacle.fits_at_ns, driver.now.ns + unknown_retry_after_ns);
  EXPECT_EQ(obstacle.earliest_ns, driver.now.ns);
}

TEST(FindObstacle, a_code_that_no_waiting_helps_outweighs_the_rest) {
  LimitedSubjectsDriver driver;
  driver.add({slots(1), tpm(100)}, 1);
  EXPECT_EQ(found(driver, 101).code, QuotaCode::exceeds_limit);
  EXPECT_EQ(found(driver, 101).fits_at_ns, base::never_ns);
  EXPECT_EQ(found(driver, 101).earliest_ns, base::never_ns);
  driver.add({with(rpm(0), Ceiling::block)});
  EXPECT_EQ(found(driver, 101).code, QuotaCode::blocked);
}

TEST(FindObstacle, otherwise_the_first_code_of_the_reference_counts) {
  LimitedSubjectsDriver driver;
  driver.add({limit_of("usd", Metric::cost, 1), tpm(10), rpm(1), rpd(1)});
  charge(driver.limited, tokens(10), driver.now);
  EXPECT_EQ(found(driver, 1).code, QuotaCode::rpd_exceeded);
  LimitedSubjectsDriver others;
  others.add({limit_of("usd", Metric::cost, 1), tpm(10)});
  charge(others.limited, tokens(10), others.now);
  EXPECT_EQ(found(others, 1).code, QuotaCode::tpm_exceeded);
}

TEST(RetryMs, is_when_it_fits_unless_no_waiting_helps) {
  constexpr int64_t now_ns = base::ns_per_s;
  const Obstacle later{.code = QuotaCode::tpm_exceeded, .fits_at_ns = now_ns + 1'500'001};
  EXPECT_EQ(retry_after_ms_of(later.code, later, now_ns), 2);
  EXPECT_EQ(retry_after_ms_of(later.code, {.code = later.code, .fits_at_ns = now_ns}, now_ns), 1);
  EXPECT_EQ(retry_after_ms_of(QuotaCode::blocked, later, now_ns), api::retry_never);
  EXPECT_EQ(
      retry_after_ms_of(later.code, {.code = later.code, .fits_at_ns = base::never_ns}, now_ns),
      api::retry_never);
}

TEST(SetRetry, decides_by_the_code_whether_a_retry_may_help) {
  api::QuotaAnswer answer{.code = QuotaCode::tpm_exceeded};
  set_retry_after(answer);
  EXPECT_EQ(answer.retry_after_ms, limits::unknown_retry_after_ms);
  answer = {.code = QuotaCode::blocked};
  set_retry_after(answer);
  EXPECT_EQ(answer.retry_after_ms, api::retry_never);
  answer = {.code = QuotaCode::tpm_exceeded, .retry_after_ms = 7};
  set_retry_after(answer);
  EXPECT_EQ(answer.retry_after_ms, 7);
}

}  // namespace
}  // namespace sluice::quota
