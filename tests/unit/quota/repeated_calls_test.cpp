// Goal: a repeat under a client's id gets what the first call made; another call is refused.
// Method: reservations, holds and waiters with an id, by hand.
#include "quota/repeated_calls.hpp"

#include <gtest/gtest.h>

#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

using api::QuotaAnswer;
using api::QuotaCode;

class RepeatedCallsTest : public testing::Test {
 protected:
  Request with_id(uint64_t request_hash = 3) {
    Request request = TableDriver::request(subject_);
    request.id = {.low = 1, .high = 2};
    request.request_hash = request_hash;
    return request;
  }

  TableDriver driver_;
  const SubjectIndex subject_ = driver_.make("m", {slots(9)});
  RepeatedCalls repeats_{driver_.client_ids, driver_.reservations, driver_.queues};
};

TEST_F(RepeatedCallsTest, a_call_without_an_id_or_with_a_new_one_is_none) {
  QuotaAnswer answer;
  driver_.open(with_id());
  EXPECT_FALSE(repeats_.find(TableDriver::request(subject_)));
  Request other = with_id();
  other.id.high = 9;
  EXPECT_FALSE(repeats_.answer(other, answer));
}

TEST_F(RepeatedCallsTest, gets_the_first_answer_which_another_connection_may_know_then) {
  const Reservation& made = driver_.open(with_id());
  QuotaAnswer answer;
  driver_.advance_ms(400);
  ASSERT_TRUE(repeats_.answer(with_id(), answer));
  EXPECT_EQ(answer.code, QuotaCode::ok);
  EXPECT_EQ(answer.reservation, made.id);
  EXPECT_EQ(answer.state, api::ReservationState::open);
  EXPECT_EQ(answer.lifetime_ms, 600U);
  EXPECT_TRUE(made.repeated);
}

TEST_F(RepeatedCallsTest, another_request_under_the_id_is_refused) {
  const Reservation& made = driver_.open(with_id());
  QuotaAnswer answer;
  ASSERT_TRUE(repeats_.answer(with_id(4), answer));
  EXPECT_EQ(answer.code, QuotaCode::id_in_use);
  EXPECT_FALSE(made.repeated);
}

TEST_F(RepeatedCallsTest, the_id_of_a_waiter_is_in_use) {
  driver_.queues.join(with_id(), {api::QuotaCall{}});
  QuotaAnswer answer;
  ASSERT_TRUE(repeats_.answer(with_id(), answer));
  EXPECT_EQ(answer.code, QuotaCode::id_in_use);
  EXPECT_FALSE(repeats_.is_undecided(*repeats_.find(with_id())));
}

TEST_F(RepeatedCallsTest, a_hold_is_undecided) {
  const api::QuotaBatch batch;
  Reservation& held =
      driver_.reservations[driver_.reservations.hold(with_id(), Home::here, true, batch)];
  ASSERT_TRUE(repeats_.find(with_id()));
  EXPECT_TRUE(repeats_.is_undecided(*repeats_.find(with_id())));
  driver_.reservations.release(held);
  driver_.reservations.admit(held, {});
  EXPECT_FALSE(repeats_.is_undecided(*repeats_.find(with_id())));
}

}  // namespace
}  // namespace sluice::quota
