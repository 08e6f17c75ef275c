// Goal:   waiters are served in order, as soon as possible and not earlier, and their waits end
//         when they can never be served.
// Method: queues by hand with a virtual clock; tickets name the waiters.
#include <gtest/gtest.h>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::LimitKind;
using api::Metric;
using api::Quota;
using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::Ticket;
using Tickets = std::vector<Ticket>;
using Outcomes = std::vector<StoreDriver::Outcome>;

// Model "m" with 100 tokens a minute, all of them held by a reservation.
class QuotaQueue : public testing::Test {
 protected:
  QuotaQueue() {
    driver_.put("m", {tpm(100)});
    holder_ = driver_.reserve({"m"}, long_lived(asking_tokens(100))).reservation;
  }
  static QuotaCall long_lived(QuotaCall call) {
    call.lifetime_ms = 3'600'000;
    return call;
  }
  QuotaAnswer wait(Ticket ticket, uint64_t tokens, uint32_t wait_ms_max = 0,
                   const Names& names = {"m"}) {
    return driver_.reserve(names, waiting(long_lived(asking_tokens(tokens)), ticket, wait_ms_max));
  }
  uint32_t waiting_for(const std::string& name) { return driver_.row(name).waiting; }

  StoreDriver driver_;
  uint64_t holder_ = 0;
};

// ------------------------------------------------------------------------------- first in, first
// out

TEST_F(QuotaQueue, is_served_in_the_order_of_arrival_as_far_as_it_fits) {
  wait(1, 60);
  wait(2, 30);
  wait(3, 20);
  wait(4, 1);
  EXPECT_EQ(waiting_for("m"), 4U);
  driver_.cancel(holder_);
  EXPECT_EQ(driver_.served(), (Tickets{1, 2}));
  EXPECT_EQ(driver_.used("m", "tpm"), 90U);
  EXPECT_EQ(waiting_for("m"), 2U);
}

TEST_F(QuotaQueue, a_waiter_is_asked_for_its_position_by_its_id) {
  driver_.put("n", {tpm(100)});
  const auto position = [&](uint8_t place, std::string_view id, const Names& names) {
    return driver_.op(QuotaOp::position, {.place = place, .client_id = id}, names).position;
  };
  wait(1, 60);
  driver_.reserve({"n", "m"}, with_id(waiting(long_lived(asking_tokens(10)), 2), "job"));
  EXPECT_EQ(position(0, "job", {"n", "m"}), 1U);
  EXPECT_EQ(position(1, "job", {"n", "m"}), 2U);
  EXPECT_EQ(position(0, "job", {"m", "n"}), 2U);
  EXPECT_EQ(position(0, "job", {"m"}), 0U);
  EXPECT_EQ(position(0, "jo", {"n", "m"}), 0U);
  driver_.cancel(holder_);
  EXPECT_EQ(driver_.served(), (Tickets{1, 2}));
  EXPECT_EQ(position(0, "job", {"n", "m"}), 0U);
}

TEST_F(QuotaQueue, a_newcomer_stands_behind_the_waiters) {
  wait(1, 60);
  driver_.settle(holder_, 50);
  EXPECT_EQ(driver_.served(), Tickets{});
  EXPECT_EQ(wait(2, 1).code, QuotaCode::queued);
  const QuotaAnswer answer = driver_.reserve({"m"}, asking_tokens(1));
  EXPECT_EQ(answer.code, QuotaCode::queue_ahead);
  EXPECT_EQ(answer.retry_after_ms, 1'000);  // a guess, for the time is unknown; but not at once
  EXPECT_EQ(driver_.check({"m"}, asking_tokens(1)).code, QuotaCode::queue_ahead);
}

TEST_F(QuotaQueue, a_large_head_is_not_overtaken_by_small_ones) {
  wait(1, 100);
  for (Ticket small = 2; small < 10; ++small) wait(small, 1);
  driver_.settle(holder_, 50);
  EXPECT_EQ(driver_.served(), Tickets{});
  driver_.advance_ms(60'000);
  EXPECT_EQ(driver_.served(), Tickets{1});
}

TEST_F(QuotaQueue, an_outcome_brings_the_reservation) {
  wait(1, 60);
  driver_.cancel(holder_);
  driver_.served();
  EXPECT_EQ(driver_.settle(driver_.granted, 10).code, QuotaCode::ok);
  EXPECT_EQ(driver_.used("m", "tpm"), 10U);
  EXPECT_EQ(driver_.store.statistics().waited, 1U);
}

// --------------------------------------------------------------------------------- what wakes it

TEST_F(QuotaQueue, is_woken_by_time_at_the_very_moment) {
  wait(1, 60);
  driver_.advance_ns(60 * base::ns_per_s - 1);
  EXPECT_EQ(driver_.served(), Tickets{});
  EXPECT_EQ(driver_.store.next_due_ns(), 1'060 * base::ns_per_s);
  driver_.advance_ns(1);
  EXPECT_EQ(driver_.served(), Tickets{1});
}

TEST_F(QuotaQueue, is_woken_by_a_settle) {
  wait(1, 60);
  driver_.settle(holder_, 41);
  EXPECT_EQ(driver_.served(), Tickets{});
  driver_.reset("m");
  EXPECT_EQ(driver_.served(), Tickets{1});
}

TEST_F(QuotaQueue, is_woken_by_an_expiry_that_refunds_or_frees_a_slot) {
  Quota refunding = quota_of({tpm(100)});
  refunding.refund_expired = true;
  driver_.put("m", refunding);
  driver_.extend(holder_, 1'000);
  wait(1, 60);
  driver_.advance_ms(1'000);
  EXPECT_EQ(driver_.served(), Tickets{1});

  driver_.put("printer", {slots(1)});
  driver_.extend(driver_.reserve({"printer"}, asking({.requests = 0})).reservation, 1'000);
  wait(2, 0, 0, {"printer"});
  driver_.advance_ms(999);
  EXPECT_EQ(driver_.served(), Tickets{});
  driver_.advance_ms(1);
  EXPECT_EQ(driver_.served(), Tickets{2});
}

TEST_F(QuotaQueue, is_woken_by_a_quota_that_was_put_or_removed) {
  wait(1, 60);
  driver_.put("m", {tpm(159)});
  EXPECT_EQ(driver_.served(), Tickets{});
  driver_.put("m", {tpm(160)});
  EXPECT_EQ(driver_.served(), Tickets{1});
  wait(2, 60);
  driver_.op(QuotaOp::remove, {}, {"m"});
  EXPECT_EQ(driver_.served(), Tickets{2});
}

TEST_F(QuotaQueue, is_woken_by_a_quota_of_the_file) {
  policy::QuotaBook small({.rules = {{.subject = "f", .quota = quota_of({tpm(10)})}}});
  policy::QuotaBook large({.rules = {{.subject = "f", .quota = quota_of({tpm(20)})}}});
  driver_.store.adopt(small, driver_.now());
  driver_.record({"f"}, {.input_tokens = 10});
  wait(1, 10, 0, {"f"});
  driver_.store.adopt(large, driver_.now());
  driver_.advance_ns(0);
  EXPECT_EQ(driver_.served(), Tickets{1});
}

TEST_F(QuotaQueue, is_woken_by_a_reset_of_all) {
  driver_.settle(holder_, 100);
  wait(1, 60);
  driver_.ask({.op = QuotaOp::reset_all});
  EXPECT_LE(driver_.store.next_due_ns(), driver_.ns);
  driver_.advance_ns(0);
  EXPECT_EQ(driver_.served(), Tickets{1});
}

TEST_F(QuotaQueue, moves_when_its_head_withdraws) {
  const api::WaiterId head = wait(1, 80).waiter;
  wait(2, 50);
  driver_.settle(holder_, 50);
  EXPECT_FALSE(driver_.store.withdraw(head, 2, driver_.now()));
  EXPECT_FALSE(driver_.store.withdraw(head, 1, driver_.now(), 3));
  EXPECT_TRUE(driver_.store.withdraw(head, 1, driver_.now()));
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{1, QuotaCode::withdrawn}, {2, QuotaCode::ok}}));
  EXPECT_FALSE(driver_.store.withdraw(head, 1, driver_.now()));
}

TEST_F(QuotaQueue, moves_when_its_head_is_abandoned) {
  const api::WaiterId head = wait(1, 80).waiter;
  wait(2, 50);
  driver_.settle(holder_, 50);
  EXPECT_TRUE(driver_.store.abandon(head, 1, driver_.now()));
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{2, QuotaCode::ok}}));
}

TEST_F(QuotaQueue, one_that_leaves_the_middle_or_the_end_keeps_the_others) {
  wait(1, 10);
  const api::WaiterId middle = wait(2, 10).waiter;
  wait(3, 10);
  const api::WaiterId end = wait(4, 10).waiter;
  driver_.store.abandon(middle, 2, driver_.now());
  driver_.store.abandon(end, 4, driver_.now());
  driver_.store.check_invariants(driver_.now());
  wait(5, 10);
  driver_.cancel(holder_);
  EXPECT_EQ(driver_.served(), (Tickets{1, 3, 5}));
}

// ----------------------------------------------------------------------------- calls that cannot
// wait

TEST_F(QuotaQueue, refuses_a_call_that_can_never_be_served) {
  const QuotaAnswer answer = wait(1, 101);
  EXPECT_EQ(answer.code, QuotaCode::exceeds_limit);
  EXPECT_EQ(answer.retry_after_ms, api::retry_never);
  EXPECT_EQ(driver_.store.waiters_count(), 0U);
}

TEST_F(QuotaQueue, ends_a_wait_that_never_fits_any_more) {
  wait(1, 60);
  wait(2, 50);
  driver_.put("m", {tpm(55)});
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{1, QuotaCode::exceeds_limit}}));
  driver_.put("m", {with(tpm(0), api::Ceiling::block)});
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{2, QuotaCode::blocked}}));
}

// Ticket 1 waits for "m", and ticket 2, behind it, for "m" and "n", which has waiters, too.
class QuotaQueueOfTwo : public QuotaQueue {
 protected:
  QuotaQueueOfTwo() {
    driver_.put("n", {tpm(100)});
    wait(1, 60);
    wait(2, 50, 0, {"m", "n"});
    wait(3, 10, 0, {"n"});
  }
};

TEST_F(QuotaQueueOfTwo, ends_a_wait_that_never_fits_any_more_wherever_it_stands) {
  EXPECT_EQ(driver_.check({"n"}, asking_tokens(1)).code, QuotaCode::queue_ahead);
  driver_.put("n", {tpm(40)});
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{2, QuotaCode::exceeds_limit}, {3, QuotaCode::ok}}));
  EXPECT_EQ(driver_.check({"n"}, asking_tokens(1)).code, QuotaCode::ok);
  EXPECT_EQ(waiting_for("m"), 1U);
}

TEST_F(QuotaQueueOfTwo, ends_a_wait_in_the_middle_of_a_queue) {
  driver_.record({"n"}, {.input_tokens = 100});
  wait(4, 50, 0, {"n"});
  wait(5, 1, 0, {"n"});
  driver_.put("n", {tpm(40)});
  EXPECT_EQ(driver_.outcomes(),
            (Outcomes{{2, QuotaCode::exceeds_limit}, {4, QuotaCode::exceeds_limit}}));
  EXPECT_EQ(waiting_for("n"), 2U);
}

TEST_F(QuotaQueueOfTwo, the_outcome_is_the_denial_that_one_would_get_now) {
  driver_.put("m", {tpm(55), with(rpm(0), api::Ceiling::block)});
  EXPECT_EQ(driver_.outcomes(),
            (Outcomes{{1, QuotaCode::blocked}, {2, QuotaCode::blocked}, {3, QuotaCode::ok}}));
}

TEST_F(QuotaQueueOfTwo, ends_a_wait_whose_subject_is_removed_and_denied) {
  policy::QuotaBook denying({.rules = {}, .unknown = policy::UnknownSubjects::deny});
  driver_.store.adopt(denying, driver_.now());
  driver_.op(QuotaOp::remove, {}, {"n"});
  EXPECT_EQ(driver_.outcomes(),
            (Outcomes{{2, QuotaCode::unknown_subject}, {3, QuotaCode::unknown_subject}}));
}

TEST_F(QuotaQueueOfTwo, a_subject_that_is_removed_and_allowed_ends_no_wait) {
  driver_.op(QuotaOp::remove, {}, {"n"});
  EXPECT_EQ(driver_.outcomes(), Outcomes{});
  EXPECT_EQ(driver_.store.waiters_count(), 3U);
}

TEST_F(QuotaQueue, ends_a_wait_that_a_quota_of_the_file_rules_out_behind_others) {
  policy::QuotaBook large({.rules = {{.subject = "f", .quota = quota_of({tpm(100)})}}});
  policy::QuotaBook small({.rules = {{.subject = "f", .quota = quota_of({tpm(20)})}}});
  driver_.store.adopt(large, driver_.now());
  wait(1, 60);
  wait(2, 50, 0, {"m", "f"});
  driver_.store.adopt(small, driver_.now());
  driver_.advance_ns(0);
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{2, QuotaCode::exceeds_limit}}));
}

// Such a subject has no queue.
TEST_F(QuotaQueue, ends_a_wait_behind_others_when_a_file_denies_what_has_no_quota) {
  policy::QuotaBook denying({.rules = {}, .unknown = policy::UnknownSubjects::deny});
  wait(1, 60);
  wait(2, 50, 0, {"m", "stranger"});
  driver_.store.adopt(denying, driver_.now());
  driver_.advance_ns(0);
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{2, QuotaCode::unknown_subject}}));
}

TEST_F(QuotaQueue, ends_a_wait_when_its_subject_is_denied_from_now_on) {
  wait(1, 60);
  policy::QuotaBook denying({.rules = {}, .unknown = policy::UnknownSubjects::deny});
  driver_.store.adopt(denying, driver_.now());
  driver_.op(QuotaOp::remove, {}, {"m"});
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{1, QuotaCode::unknown_subject}}));
}

TEST_F(QuotaQueue, no_waiter_waits_longer_than_its_limit) {
  wait(1, 60, 1'000);
  wait(2, 10, 2'000);
  driver_.advance_ms(999);
  EXPECT_EQ(driver_.outcomes(), Outcomes{});
  driver_.advance_ms(1);
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{1, QuotaCode::wait_limit}}));
  driver_.advance_ms(1'000);
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{2, QuotaCode::wait_limit}}));
  EXPECT_EQ(driver_.used("m", "tpm"), 100U);
}

// The session shows the limits of the call's subjects without asking again.
TEST_F(QuotaQueue, a_wait_in_vain_is_answered_as_a_check_would_be) {
  api::WaitAnswer lent;
  driver_.lent = &lent;
  wait(1, 60, 1'000);
  driver_.lent = nullptr;
  wait(2, 10);
  driver_.advance_ms(1'000);
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{1, QuotaCode::wait_limit}}));
  QuotaCall asked = asking_tokens(60);
  asked.flags = api::quota_flag::wants_limits;
  const QuotaAnswer checked = driver_.check({"m"}, asked);
  EXPECT_EQ(lent.answer.code, QuotaCode::wait_limit);
  EXPECT_EQ(lent.answer.retry_after_ms, checked.retry_after_ms);
  ASSERT_EQ(lent.limits.size(), checked.limits_count);
  const api::LimitReport& report = driver_.batch.limits[checked.first_limit];
  EXPECT_EQ(lent.limits[0].used, report.used);
  EXPECT_EQ(lent.limits[0].remaining, report.remaining);
  EXPECT_EQ(lent.limits[0].reset_ms, report.reset_ms);
  EXPECT_TRUE(lent.limits[0].violated && report.violated);
}

TEST_F(QuotaQueue, a_call_that_would_fit_behind_others_may_retry_soon) {
  api::WaitAnswer lent;
  wait(1, 100);
  driver_.lent = &lent;
  wait(2, 10, 1'000);
  driver_.lent = nullptr;
  driver_.settle(holder_, 20);
  driver_.advance_ms(1'000);
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{2, QuotaCode::wait_limit}}));
  EXPECT_EQ(lent.answer.retry_after_ms, limits::unknown_retry_after_ms);
  ASSERT_EQ(lent.limits.size(), 1U);
  EXPECT_FALSE(lent.limits[0].violated);
}

TEST_F(QuotaQueue, a_grant_is_answered_with_its_limits) {
  api::WaitAnswer lent;
  driver_.lent = &lent;
  wait(1, 60);
  driver_.cancel(holder_);
  EXPECT_EQ(driver_.served(), Tickets{1});
  EXPECT_EQ(lent.answer.reservation, driver_.granted);
  EXPECT_EQ(lent.answer.lifetime_ms, 3'600'000U);
  ASSERT_EQ(lent.limits.size(), 1U);
  EXPECT_EQ(lent.limits[0].reserved, 60U);
}

TEST_F(QuotaQueue, capacity_that_comes_with_the_wait_limit_comes_in_time) {
  EXPECT_EQ(wait(1, 60, 60'000).code, QuotaCode::queued);
  driver_.advance_ms(60'000);
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{1, QuotaCode::ok}}));
}

TEST_F(QuotaQueue, capacity_comes_in_time_for_one_that_was_not_the_head_at_first) {
  const api::WaiterId head = wait(1, 60).waiter;
  driver_.advance_ms(700);
  EXPECT_EQ(wait(2, 60, 59'300).code, QuotaCode::queued);
  driver_.advance_ms(500);
  driver_.store.abandon(head, 1, driver_.now());
  driver_.advance_ms(58'800);
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{2, QuotaCode::ok}}));
}

TEST_F(QuotaQueue, a_wait_that_certainly_is_too_short_is_refused_at_once) {
  driver_.settle(holder_, 100);
  const QuotaAnswer answer = wait(1, 1, 59'999);
  EXPECT_EQ(answer.code, QuotaCode::deadline_unmeetable);
  EXPECT_EQ(answer.retry_after_ms, 60'000);
  EXPECT_EQ(wait(2, 1, 60'000).code, QuotaCode::queued);
}

TEST_F(QuotaQueue, open_charges_might_be_refunded_so_a_short_wait_is_allowed) {
  EXPECT_EQ(wait(1, 100, 1).code, QuotaCode::queued);
  driver_.cancel(holder_);
  EXPECT_EQ(driver_.served(), Tickets{1});
}

TEST_F(QuotaQueue, is_full_in_this_store_or_at_the_origin) {
  StoreDriver small({.subjects_max = 10, .reservations_max = 10, .waiters_max = 2});
  for (const char* name : {"m", "n"}) {
    small.put(name, {tpm(100)});
    small.record({name}, {.input_tokens = 100});
  }
  EXPECT_EQ(small.reserve({"m"}, waiting(asking_tokens(1), 1)).code, QuotaCode::queued);
  EXPECT_EQ(small.reserve({"n"}, waiting(asking_tokens(1), 2)).code, QuotaCode::queued);
  const QuotaAnswer answer = small.reserve({"m"}, waiting(asking_tokens(1), 3));
  EXPECT_EQ(answer.code, QuotaCode::waiters_full);
  EXPECT_GT(answer.retry_after_ms, 0);
  QuotaCall call = waiting(asking_tokens(1), 1);
  call.flags |= api::quota_flag::waiters_full;
  EXPECT_EQ(driver_.reserve({"m"}, call).code, QuotaCode::waiters_full);
  call.flags = api::quota_flag::may_wait | api::quota_flag::connection_waiters_full;
  EXPECT_EQ(driver_.reserve({"m"}, call).code, QuotaCode::connection_waiters_full);
}

TEST_F(QuotaQueue, one_subject_has_as_many_waiters_as_places_are_free) {
  StoreDriver small({.subjects_max = 10, .reservations_max = 10, .waiters_max = 8});
  for (const char* name : {"{t}m", "{t}n"}) {
    small.put(name, {tpm(100)});
    small.record({name}, {.input_tokens = 100});
  }
  api::Ticket ticket = 1;
  const auto ask = [&](const Names& subjects) {
    return small.reserve(subjects, waiting(asking_tokens(1), ticket++));
  };
  for (int count = 0; count < 4; ++count) EXPECT_EQ(ask({"{t}m"}).code, QuotaCode::queued);
  const QuotaAnswer answer = ask({"{t}m"});
  EXPECT_EQ(answer.code, QuotaCode::subject_waiters_full);
  EXPECT_GT(answer.retry_after_ms, 0);
  EXPECT_EQ(ask({"{t}n", "{t}m"}).code, QuotaCode::subject_waiters_full);
  EXPECT_EQ(ask({"{t}n"}).code, QuotaCode::queued);
}

TEST_F(QuotaQueue, is_closed_when_the_server_drains) {
  wait(1, 60);
  wait(2, 10);
  driver_.store.drain(driver_.now());
  EXPECT_EQ(driver_.outcomes(), (Outcomes{{1, QuotaCode::draining}, {2, QuotaCode::draining}}));
  QuotaCall call = waiting(asking_tokens(1), 3);
  call.flags |= api::quota_flag::draining;
  EXPECT_EQ(driver_.reserve({"m"}, call).code, QuotaCode::draining);
}

// ------------------------------------------------------------------------------------ overtaking

Quota passing(std::vector<api::Limit> limits, uint32_t overtakers_max) {
  Quota quota = quota_of(std::move(limits));
  quota.overtakers_max = overtakers_max;
  return quota;
}

TEST_F(QuotaQueue, small_newcomers_overtake_the_head_within_the_bound) {
  driver_.put("m", passing({tpm(100)}, 2));
  driver_.settle(holder_, 50);
  wait(1, 80);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::ok);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::ok);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::queue_ahead);
  driver_.advance_ms(60'000);
  EXPECT_EQ(driver_.served(), Tickets{1});
}

TEST_F(QuotaQueue, small_waiters_overtake_the_head_within_the_bound) {
  driver_.put("m", passing({tpm(100)}, 2));
  wait(1, 80);
  for (Ticket small = 2; small < 6; ++small) wait(small, 10);
  driver_.settle(holder_, 50);
  EXPECT_EQ(driver_.served(), (Tickets{2, 3}));
  driver_.advance_ms(60'000);
  EXPECT_EQ(driver_.served(), (Tickets{1, 4, 5}));
}

TEST_F(QuotaQueue, the_bound_counts_anew_for_each_head) {
  driver_.put("m", passing({tpm(100)}, 1));
  driver_.settle(holder_, 50);
  const api::WaiterId head = wait(1, 80).waiter;
  wait(2, 70);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::ok);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::queue_ahead);
  driver_.store.abandon(head, 1, driver_.now());
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::ok);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::queue_ahead);
}

TEST_F(QuotaQueue, overtaking_the_heads_of_two_queues_counts_in_both) {
  driver_.put("{t}a", passing({tpm(100)}, 1));
  driver_.put("{t}b", passing({tpm(100)}, 1));
  const uint64_t both =
      driver_.reserve({"{t}a", "{t}b"}, long_lived(asking_tokens(100))).reservation;
  wait(1, 90, 0, {"{t}a"});
  wait(2, 90, 0, {"{t}b"});
  wait(3, 10, 0, {"{t}a", "{t}b"});
  wait(4, 10, 0, {"{t}a"});
  wait(5, 10, 0, {"{t}b"});
  driver_.settle(both, 50);
  EXPECT_EQ(driver_.served(), Tickets{3});
  EXPECT_EQ(driver_.used("{t}a", "tpm"), 60U);
  EXPECT_EQ(driver_.used("{t}b", "tpm"), 60U);
}

// 100 tokens that leak away, one a second.
api::Limit leaking() {
  return limit_of("tpm", Metric::tokens, 100, LimitKind::gcra, 100'000);
}

TEST_F(QuotaQueue, one_that_may_overtake_is_woken_when_it_fits_before_the_head) {
  driver_.put("m", passing({leaking()}, 1));
  driver_.record({"m"}, {.input_tokens = 100});
  wait(1, 80);
  wait(2, 10);
  driver_.advance_ms(9'999);
  EXPECT_EQ(driver_.served(), Tickets{});
  driver_.advance_ms(1);
  EXPECT_EQ(driver_.served(), Tickets{2});
  driver_.advance_ms(80'000);
  EXPECT_EQ(driver_.served(), Tickets{1});
}

TEST_F(QuotaQueue, waiters_that_may_overtake_from_now_on_are_woken_one_after_the_other) {
  driver_.put("m", {leaking()});
  driver_.record({"m"}, {.input_tokens = 100});
  wait(1, 80);
  wait(2, 10);
  wait(3, 20);
  wait(4, 1);
  driver_.put("m", passing({leaking()}, 2));
  driver_.advance_ms(1'000);
  EXPECT_EQ(driver_.served(), Tickets{4});
  driver_.advance_ms(10'000);
  EXPECT_EQ(driver_.served(), Tickets{2});
  driver_.advance_ms(20'000);
  EXPECT_EQ(driver_.served(), Tickets{});  // two have passed
  driver_.advance_ms(60'000);
  EXPECT_EQ(driver_.served(), (Tickets{1}));
}

TEST_F(QuotaQueue, a_new_head_of_one_queue_may_overtake_the_head_of_another) {
  driver_.put("{t}a", passing({tpm(100)}, 1));
  driver_.put("{t}b", {tpm(100)});
  const uint64_t b = driver_.reserve({"{t}b"}, long_lived(asking_tokens(100))).reservation;
  driver_.record({"{t}a"}, {.input_tokens = 50});
  wait(1, 80, 0, {"{t}a"});
  wait(2, 50, 0, {"{t}b"});
  wait(3, 10, 0, {"{t}a", "{t}b"});
  driver_.cancel(b);
  EXPECT_EQ(driver_.served(), (Tickets{2, 3}));
}

TEST_F(QuotaQueue, a_waiter_near_enough_to_the_head_may_overtake) {
  driver_.put("m", passing({tpm(100)}, 1));
  wait(1, 80);
  const api::WaiterId second = wait(2, 60).waiter;
  for (Ticket large = 3; large < 18; ++large) wait(large, 60);
  wait(18, 10);
  driver_.settle(holder_, 50);
  EXPECT_EQ(driver_.served(), Tickets{});  // the seventeenth behind the head
  driver_.store.abandon(second, 2, driver_.now());
  EXPECT_EQ(driver_.served(), Tickets{18});
}

// It is tried every second, not all the time.
TEST_F(QuotaQueue, one_that_may_overtake_waits_for_a_place_for_its_reservation) {
  StoreDriver small({.subjects_max = 10, .reservations_max = 1, .waiters_max = 4});
  small.put("a", {tpm(10)});
  small.put("m", passing({leaking()}, 1));
  const uint64_t first = small.reserve({"a"}, long_lived(asking_tokens(1))).reservation;
  small.record({"m"}, {.input_tokens = 100});
  small.reserve({"m"}, waiting(asking_tokens(80), 1));
  small.reserve({"m"}, waiting(asking_tokens(10), 2));
  small.advance_ms(10'000);
  int wakes = 0;
  for (const int64_t end_ns = small.ns + 10 * base::ns_per_s; small.ns < end_ns; ++wakes) {
    const int64_t due_ns = small.store.next_due_ns();
    small.advance_ns(std::max<int64_t>(due_ns - small.ns, 1'000));
  }
  EXPECT_GE(wakes, 10);
  EXPECT_LE(wakes, 60);
  EXPECT_EQ(small.served(), Tickets{});
  small.cancel(first);
  small.advance_ms(1'000);
  EXPECT_EQ(small.served(), Tickets{2});
}

// --------------------------------------------------------------------------------- several queues

TEST_F(QuotaQueue, of_several_subjects_is_served_when_it_heads_them_all) {
  driver_.put("{t}a", {tpm(100)});
  driver_.put("{t}b", {tpm(100)});
  const uint64_t a = driver_.reserve({"{t}a"}, long_lived(asking_tokens(100))).reservation;
  const uint64_t b = driver_.reserve({"{t}b"}, long_lived(asking_tokens(100))).reservation;
  wait(1, 60, 0, {"{t}a"});
  wait(2, 60, 0, {"{t}a", "{t}b"});
  wait(3, 40, 0, {"{t}b"});
  driver_.cancel(b);
  EXPECT_EQ(driver_.served(), Tickets{});  // 3 would fit, but stands behind 2
  driver_.put("{t}a", {tpm(220)});
  EXPECT_EQ(driver_.served(), (Tickets{1, 2, 3}));
  driver_.cancel(a);
  EXPECT_EQ(driver_.used("{t}a", "tpm"), 120U);
  EXPECT_EQ(driver_.used("{t}b", "tpm"), 100U);
}

// Whatever the order in which subjects are named, some waiter is always served.
TEST_F(QuotaQueue, never_deadlocks_across_subjects) {
  const Names names{"{t}a", "{t}b", "{t}c"};
  for (const std::string& name : names) driver_.put(name, {slots(1)});
  const std::vector<Names> orders{{"{t}a", "{t}b"}, {"{t}b", "{t}a"}, {"{t}c", "{t}b", "{t}a"},
                                  {"{t}b", "{t}c"}, {"{t}a", "{t}c"}, {"{t}c"}};
  uint64_t open = driver_.reserve(names, long_lived(asking({.requests = 0}))).reservation;
  for (Ticket ticket = 0; ticket < 24; ++ticket) {
    EXPECT_EQ(wait(ticket, 0, 0, orders[ticket % orders.size()]).code, QuotaCode::queued);
  }
  std::vector<uint64_t> held{open};
  size_t served = 0;
  while (!held.empty()) {
    driver_.cancel(held.back());
    held.pop_back();
    for (const api::Grant& grant : driver_.store.grants()) {
      held.push_back(grant.refund_claim.reservation);
      ++served;
    }
    driver_.store.keep_grants(0);
    driver_.store.check_invariants(driver_.now());
  }
  EXPECT_EQ(served, 24U);
  EXPECT_EQ(driver_.store.waiters_count(), 0U);
}

TEST_F(QuotaQueue, one_that_leaves_frees_all_its_queues) {
  driver_.put("{t}a", {tpm(100)});
  driver_.put("{t}b", {tpm(100)});
  driver_.record({"{t}a"}, {.input_tokens = 100});
  const api::WaiterId both = wait(1, 60, 0, {"{t}a", "{t}b"}).waiter;
  wait(2, 60, 0, {"{t}b"});
  driver_.store.abandon(both, 1, driver_.now());
  EXPECT_EQ(driver_.served(), Tickets{2});
}

TEST_F(QuotaQueue, a_waiter_is_served_when_a_reservation_makes_room) {
  StoreDriver small({.subjects_max = 10, .reservations_max = 1, .waiters_max = 4});
  small.put("m", {slots(1)});
  const uint64_t first = small.reserve({"m"}, asking({.requests = 0})).reservation;
  small.reserve({"m"}, waiting(asking({.requests = 0}), 1));
  small.cancel(first);  // remembered, but not in its place
  EXPECT_EQ(small.served(), Tickets{1});
  EXPECT_EQ(small.cancel(first).code, QuotaCode::ok);
}

TEST_F(QuotaQueue, a_waiter_goes_on_waiting_while_there_is_no_place_for_its_reservation) {
  StoreDriver small({.subjects_max = 10, .reservations_max = 1, .waiters_max = 4});
  small.put("a", {tpm(10)});
  small.put("b", {tpm(10)});
  small.record({"b"}, {.input_tokens = 10});
  const uint64_t first = small.reserve({"a"}, long_lived(asking_tokens(1))).reservation;
  small.reserve({"b"}, with_id(waiting(asking_tokens(1), 1), "id"));
  small.advance_ms(60'000);
  EXPECT_EQ(small.served(), Tickets{});
  EXPECT_EQ(small.reserve({"b"}, with_id(asking_tokens(1), "id")).code, QuotaCode::id_in_use);
  small.cancel(first);
  small.advance_ms(1'000);
  EXPECT_EQ(small.served(), Tickets{1});
}

}  // namespace
}  // namespace sluice::quota
