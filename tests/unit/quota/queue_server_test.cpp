// Goal: waiters are admitted in order as soon as they fit, and each has exactly one outcome.
// Method: a subject of 100 tokens a minute, its tables and no engine; a budget of many checks, or
//         of one.
#include "quota/queue_server.hpp"

#include <gtest/gtest.h>

#include <map>

#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

using api::QuotaCode;
using api::Ticket;
using api::WaiterId;

class QueueServerTest : public testing::Test {
 protected:
  explicit QueueServerTest(uint32_t step_work = 1'000)
      : budget_(step_work), subject_(driver_.make("m", {tpm(100)})) {}
  ~QueueServerTest() override {
    driver_.subjects.check_invariants();
    driver_.reservations.check_invariants();
    driver_.queues.check_invariants();
  }

  QuotaCode join(Ticket ticket, uint64_t tokens, Obstacle obstacle = {}, uint32_t wait_ms_max = 0) {
    if (obstacle.fits_at_ns == 0) obstacle.fits_at_ns = driver_.clock.ns() + base::ns_per_s;
    api::QuotaAnswer answer;
    const api::QuotaCall call{.wait_ms_max = wait_ms_max, .ticket = ticket};
    const QuotaCode code =
        server_.join(newcomer(call), TableDriver::request(subject_, tokens), obstacle, answer);
    joined_ = answer.waiter;
    return code;
  }
  Newcomer newcomer(const api::QuotaCall& call) {
    return {.call = call, .arrival = {.ns = driver_.clock.ns(), .number = ++arrivals_}};
  }
  void step() {
    budget_.refill();
    driver_.clock.next_call();
    server_.drain_some();
    server_.mark_some();
    server_.serve_marked();
    server_.end_late_waits();
  }
  std::vector<std::pair<Ticket, QuotaCode>> outcomes() {
    std::vector<std::pair<Ticket, QuotaCode>> all;
    for (const api::Grant& grant : server_.grants()) {
      all.emplace_back(grant.ticket, grant.code);
      retries_[grant.ticket] = grant.detail.retry_after_ms;
      EXPECT_EQ(grant.verdict == api::Verdict::approved, api::admits(grant.code));
      EXPECT_EQ(grant.refund_claim.reservation != 0, api::admits(grant.code));
    }
    server_.keep_grants(0);
    return all;
  }
  using Outcomes = std::vector<std::pair<Ticket, QuotaCode>>;

  TableDriver driver_;
  WorkBudget budget_;
  const SubjectIndex subject_;
  std::map<Ticket, int64_t> retries_;  // of the outcomes
  std::deque<api::QuotaCall> outgoing_;
  SpreadWaiters spread_{driver_.options, driver_.clock, driver_.queues, outgoing_};
  QueueServer server_{driver_.options, driver_.clock,    budget_,
                      driver_.book,    driver_.subjects, driver_.reservations,
                      driver_.queues,  spread_,          driver_.statistics};
  WaiterId joined_ = api::no_waiter;
  uint64_t arrivals_ = 0;
  api::QuotaAnswer answer_;
  api::WaitAnswer lent_;
};

TEST_F(QueueServerTest, serves_in_order_as_far_as_it_fits) {
  join(1, 60);
  join(2, 50);
  join(3, 10);
  server_.serve(subject_);
  EXPECT_EQ(outcomes(), (Outcomes{{1, QuotaCode::ok}}));
  EXPECT_EQ(driver_.used(subject_), 60U);
  EXPECT_EQ(driver_.reservations.open_count(), 1U);
  EXPECT_EQ(driver_.statistics.waited, 1U);
  driver_.advance_ms(60'000);
  server_.serve(subject_);
  EXPECT_EQ(outcomes(), (Outcomes{{2, QuotaCode::ok}, {3, QuotaCode::ok}}));
}

TEST_F(QueueServerTest, ends_waits_that_can_never_fit) {
  join(1, 101);
  join(2, 10);
  server_.serve(subject_);
  EXPECT_EQ(outcomes(), (Outcomes{{1, QuotaCode::exceeds_limit}, {2, QuotaCode::ok}}));
}

TEST_F(QueueServerTest, reports_why_a_wait_was_in_vain) {
  const SubjectIndex blocked = driver_.make("b", {with(tpm(1), api::Ceiling::block)});
  const api::QuotaCall call{.ticket = 2};
  server_.join(newcomer(call), TableDriver::request(blocked),
               {.fits_at_ns = driver_.clock.ns() + base::ns_per_s}, answer_);
  server_.serve(blocked);
  EXPECT_EQ(outcomes(), (Outcomes{{2, QuotaCode::blocked}}));
}

TEST_F(QueueServerTest, reports_the_code_of_an_admission) {
  const SubjectIndex unlimited = driver_.make("u", {with(tpm(1), api::Ceiling::unlimited)});
  const api::QuotaCall call{.ticket = 1};
  server_.join(newcomer(call), TableDriver::request(unlimited, 50),
               {.fits_at_ns = driver_.clock.ns() + base::ns_per_s}, answer_);
  server_.serve(unlimited);
  EXPECT_EQ(outcomes(), (Outcomes{{1, QuotaCode::unlimited}}));
  EXPECT_EQ(driver_.statistics.reserves[static_cast<size_t>(QuotaCode::unlimited)], 1U);
}

TEST_F(QueueServerTest, a_request_that_waiting_cannot_help_does_not_join) {
  EXPECT_EQ(join(1, 1, {.code = QuotaCode::exceeds_limit, .fits_at_ns = base::never_ns}),
            QuotaCode::exceeds_limit);
  const int64_t later = driver_.clock.ns() + 2 * base::ns_per_s;
  EXPECT_EQ(join(1, 1, {.fits_at_ns = later, .earliest_ns = later}, 1'999),
            QuotaCode::deadline_unmeetable);
  EXPECT_EQ(join(1, 1, {.fits_at_ns = later, .earliest_ns = later}, 2'000), QuotaCode::queued);
}

TEST_F(QueueServerTest, has_a_place_for_every_outcome) {
  for (Ticket ticket = 0; ticket < 8; ++ticket) {
    EXPECT_EQ(join(ticket, 1), QuotaCode::queued);
    server_.withdraw(joined_);
  }
  EXPECT_EQ(join(8, 1), QuotaCode::waiters_full);  // the outcomes are not fetched yet
  EXPECT_EQ(outcomes().size(), 8U);
  EXPECT_EQ(join(8, 1), QuotaCode::queued);
}

TEST_F(QueueServerTest, a_withdrawn_waiter_has_an_outcome_and_an_abandoned_one_has_none) {
  join(1, 101);
  const WaiterId first = joined_;
  join(2, 10);
  server_.withdraw(first);
  EXPECT_EQ(outcomes(), (Outcomes{{1, QuotaCode::withdrawn}, {2, QuotaCode::ok}}));
  EXPECT_EQ(retries_, (std::map<Ticket, int64_t>{{1, api::retry_never}, {2, 0}}));
  join(3, 10);
  server_.abandon(joined_);
  EXPECT_TRUE(outcomes().empty());
  EXPECT_EQ(driver_.queues.pool().used(), 0U);
}

TEST_F(QueueServerTest, a_late_waiter_is_tried_once_more) {
  join(1, 10);
  server_.begin_late_wait(joined_);
  join(2, 200);
  server_.begin_late_wait(joined_);
  EXPECT_TRUE(server_.has_work());
  step();
  step();
  EXPECT_EQ(outcomes(), (Outcomes{{1, QuotaCode::ok}, {2, QuotaCode::exceeds_limit}}));
  driver_.use(subject_, 90);
  join(3, 10);
  server_.begin_late_wait(joined_);
  step();
  step();
  EXPECT_EQ(outcomes(), (Outcomes{{3, QuotaCode::wait_limit}}));
  EXPECT_EQ(retries_.at(3), 60'000) << "when the minute is over";
  EXPECT_FALSE(server_.has_work());
}

TEST_F(QueueServerTest, draining_ends_all_waits_and_serves_no_waiter) {
  join(1, 10);
  join(2, 10);
  server_.begin_drain();
  server_.serve(subject_);
  EXPECT_TRUE(outcomes().empty());
  step();
  EXPECT_EQ(outcomes(), (Outcomes{{1, QuotaCode::draining}, {2, QuotaCode::draining}}));
}

TEST_F(QueueServerTest, tries_every_queue_when_all_are_marked) {
  join(1, 10);
  server_.begin_marking_all();
  EXPECT_TRUE(server_.has_work());
  step();
  EXPECT_EQ(outcomes(), (Outcomes{{1, QuotaCode::ok}}));
  EXPECT_FALSE(server_.has_work());
}

TEST_F(QueueServerTest, waits_on_when_there_is_no_place_for_a_reservation) {
  for (int place = 0; place < 4; ++place) driver_.open(TableDriver::request(subject_));
  join(1, 10);
  server_.serve(subject_);
  EXPECT_TRUE(outcomes().empty());
  driver_.reservations.expire(driver_.reservations[0]);
  server_.serve(subject_);
  EXPECT_EQ(outcomes(), (Outcomes{{1, QuotaCode::ok}}));
}

// ------------------------------------------------------------- what the session shows of a wait

TEST_F(QueueServerTest, answers_a_grant_with_its_limits) {
  join(1, 60);
  driver_.queues[joined_].answer = &lent_;
  server_.serve(subject_);
  const api::Grant& grant = server_.grants()[0];
  EXPECT_EQ(lent_.answer.code, QuotaCode::ok);
  EXPECT_EQ(lent_.answer.state, api::ReservationState::open);
  EXPECT_EQ(lent_.answer.reservation, grant.refund_claim.reservation);
  EXPECT_EQ(lent_.answer.lifetime_ms, 1'000U);
  ASSERT_EQ(lent_.limits.size(), 1U);
  EXPECT_EQ(lent_.answer.limits_count, 1U);
  EXPECT_EQ(lent_.limits[0].used, 60U);
  EXPECT_EQ(lent_.limits[0].reserved, 60U);
  EXPECT_EQ(lent_.limits[0].remaining, 40U);
}

TEST_F(QueueServerTest, answers_a_wait_that_can_never_fit_with_the_limits_that_it_violates) {
  join(1, 101);
  driver_.queues[joined_].answer = &lent_;
  server_.serve(subject_);
  EXPECT_EQ(lent_.answer.code, QuotaCode::exceeds_limit);
  EXPECT_EQ(lent_.answer.retry_after_ms, api::retry_never);
  ASSERT_EQ(lent_.limits.size(), 1U);
  EXPECT_TRUE(lent_.limits[0].violated);
}

TEST_F(QueueServerTest, answers_a_late_waiter_as_it_stands_when_it_has_left) {
  driver_.use(subject_, 95);
  join(1, 10);
  driver_.queues[joined_].answer = &lent_;
  server_.begin_late_wait(joined_);
  join(2, 5);
  step();
  step();
  EXPECT_EQ(outcomes(), (Outcomes{{1, QuotaCode::wait_limit}, {2, QuotaCode::ok}}));
  EXPECT_EQ(lent_.answer.code, QuotaCode::wait_limit);
  EXPECT_EQ(retries_.at(1), lent_.answer.retry_after_ms);
  EXPECT_EQ(lent_.answer.retry_after_ms, 60'000) << "when the minute is over";
  ASSERT_EQ(lent_.limits.size(), 1U);
  EXPECT_TRUE(lent_.limits[0].violated);
  EXPECT_EQ(lent_.limits[0].used, 100U);
}

TEST_F(QueueServerTest, answers_a_waiter_that_is_drained_without_limits) {
  join(1, 10);
  driver_.queues[joined_].answer = &lent_;
  server_.begin_drain();
  step();
  EXPECT_EQ(lent_.answer.code, QuotaCode::draining);
  EXPECT_EQ(lent_.answer.retry_after_ms, limits::unknown_retry_after_ms);
  EXPECT_TRUE(lent_.limits.empty());
}

class QueueServerInSlices : public QueueServerTest {
 protected:
  QueueServerInSlices() : QueueServerTest(1) {}
};

TEST_F(QueueServerInSlices, each_step_serves_as_many_as_its_budget_allows) {
  for (Ticket ticket = 1; ticket <= 3; ++ticket) join(ticket, 10);
  driver_.subjects.to_serve().add(subject_);
  for (Ticket ticket = 1; ticket <= 3; ++ticket) {
    EXPECT_TRUE(server_.has_work());
    step();
    EXPECT_EQ(outcomes(), (Outcomes{{ticket, QuotaCode::ok}}));
  }
}

TEST_F(QueueServerInSlices, each_step_ends_as_many_waits_as_its_budget_allows) {
  for (Ticket ticket = 1; ticket <= 3; ++ticket) join(ticket, 10);
  server_.begin_drain();
  for (Ticket ticket = 1; ticket <= 3; ++ticket) {
    EXPECT_TRUE(server_.has_work());
    step();
    EXPECT_EQ(outcomes(), (Outcomes{{ticket, QuotaCode::draining}}));
  }
}

}  // namespace
}  // namespace sluice::quota
