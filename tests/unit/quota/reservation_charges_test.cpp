// Goal:   the end of a reservation leaves charged what was used, in the window that was charged.
// Method: one subject with a window of a minute, or a sliding one; every end with less and with
// more than was reserved.
#include "quota/reservation_charges.hpp"

#include <gtest/gtest.h>

#include "quota/limited_subject_meters.hpp"
#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

class ReservationCharges : public testing::TestWithParam<api::LimitKind> {
 protected:
  ReservationCharges()
      : subject_(driver_.make("m", {limit_of("t", api::Metric::tokens, 100, GetParam())})) {}

  Reservation& reserve(uint64_t tokens) {
    const Request request = TableDriver::request(subject_, tokens);
    driver_.use(subject_, tokens, true);
    return driver_.open(request);
  }
  void replace(Reservation& reservation, uint64_t tokens, uint64_t cached = 0) {
    replace_charges(reservation, {.requests = 1, .input_tokens = tokens}, cached, driver_.subjects,
                    driver_.clock.moment());
  }
  void close_expired(Reservation& reservation) {
    close_expired_charges(reservation, driver_.subjects, driver_.clock.moment());
    driver_.reservations.expire(reservation);
    driver_.clock.next_call();
  }
  void refund_expired() {
    api::Quota quota = quota_of({limit_of("t", api::Metric::tokens, 100, GetParam())});
    quota.refund_expired = true;
    const CompiledQuota* const held = driver_.book.classes().hold(quota);
    driver_.subjects.change_quota(subject_, {held, api::QuotaSource::run_time});
    driver_.book.classes().drop_reference(held);
  }
  uint64_t used() { return driver_.used(subject_); }
  uint64_t open() { return driver_.meter(subject_).open(); }

  TableDriver driver_;
  const SubjectIndex subject_;
};

TEST_P(ReservationCharges, less_is_refunded_and_nothing_stays_open) {
  Reservation& reservation = reserve(60);
  EXPECT_EQ(open(), 60U);
  replace(reservation, 20);
  EXPECT_EQ(used(), 20U);
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(reservation.amounts.input_tokens, 20U);
}

TEST_P(ReservationCharges, more_is_charged_beyond_the_limit) {
  replace(reserve(60), 170);
  EXPECT_EQ(used(), 170U);
  EXPECT_EQ(open(), 0U);
}

TEST_P(ReservationCharges, a_refund_to_a_window_that_is_over_is_none) {
  Reservation& reservation = reserve(60);
  driver_.advance_ms(120'000);
  driver_.use(subject_, 5);
  replace(reservation, 0);
  EXPECT_EQ(used(), 5U);
}

TEST_P(ReservationCharges, an_expired_one_stays_charged) {
  Reservation& reservation = reserve(60);
  close_expired(reservation);
  EXPECT_EQ(used(), 60U);
  EXPECT_EQ(open(), 0U);
  replace(reservation, 50);  // settled late
  EXPECT_EQ(used(), 50U);
}

TEST_P(ReservationCharges, an_expired_one_is_refunded_where_the_quota_refunds_them) {
  refund_expired();
  Reservation& reservation = reserve(60);
  close_expired(reservation);
  EXPECT_EQ(used(), 0U);
  replace(reservation, 50);  // settled late: charged again
  EXPECT_EQ(used(), 50U);
}

TEST_P(ReservationCharges, a_reset_after_the_expiry_leaves_nothing_to_refund) {
  Reservation& reservation = reserve(60);
  close_expired(reservation);
  driver_.subjects.reset(subject_);
  driver_.use(subject_, 10);
  replace(reservation, 0);
  EXPECT_EQ(used(), 10U);
}

INSTANTIATE_TEST_SUITE_P(OfKinds, ReservationCharges,
                         testing::Values(api::LimitKind::fixed, api::LimitKind::sliding));

}  // namespace
}  // namespace sluice::quota
