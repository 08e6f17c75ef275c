// Goal:   a reservation ends once, refunds what was not used to the window that was charged, and
//         always frees its slot.
// Method: cases by hand with a virtual clock, through a store; the effects of an end on the queues
//         by the tables alone.
#include "quota/reservation_lifecycle.hpp"

#include <gtest/gtest.h>

#include "unit/quota/store_driver.hpp"
#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

using api::LimitKind;
using api::Metric;
using api::Quota;
using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::ReservationState;

// Model "m" with tokens and slots, and a reservation of 60 tokens.
class Ending : public testing::Test {
 protected:
  Ending() { driver_.put("m", {rpm(100), tpm(100), slots(10)}); }
  uint64_t reserve(uint64_t tokens = 60) {
    return driver_.reserve({"m"}, asking_tokens(tokens)).reservation;
  }
  uint64_t used() { return driver_.used("m", "tpm"); }
  uint64_t slots_used() { return driver_.used("m", "slots"); }

  StoreDriver driver_;
};

// -------------------------------------------------------------------------------------- settle

TEST_F(Ending, settle_replaces_the_estimate_by_the_usage) {
  const uint64_t id = reserve();
  const QuotaAnswer answer = driver_.settle(id, 30, 12);
  EXPECT_EQ(answer.code, QuotaCode::ok);
  EXPECT_EQ(answer.state, ReservationState::settled);
  EXPECT_FALSE(answer.late);
  EXPECT_EQ(answer.amounts, (api::Amounts{.requests = 1, .input_tokens = 30, .output_tokens = 12}));
  EXPECT_EQ(used(), 42U);
  EXPECT_EQ(driver_.limit("m", "tpm").reserved, 0U);
  EXPECT_EQ(slots_used(), 0U);
  EXPECT_EQ(driver_.used("m", "rpm"), 1U);
}

TEST_F(Ending, settle_counts_once_however_often_it_is_repeated) {
  const uint64_t id = reserve();
  const QuotaAnswer first = driver_.settle(id, 30, 12);
  const QuotaAnswer again = driver_.settle(id, 99, 99);
  EXPECT_EQ(again.code, first.code);
  EXPECT_EQ(again.state, first.state);
  EXPECT_EQ(again.late, first.late);
  EXPECT_EQ(again.amounts, first.amounts);
  EXPECT_EQ(used(), 42U);
  EXPECT_EQ(slots_used(), 0U);
}

TEST_F(Ending, settle_keeps_the_amounts_that_are_not_given) {
  const uint64_t id =
      driver_.reserve({"m"}, asking({.requests = 2, .input_tokens = 20, .output_tokens = 40}))
          .reservation;
  const QuotaAnswer answer = driver_.ask({.op = QuotaOp::settle,
                                          .given_bits = api::given::output_tokens,
                                          .amounts = {.requests = 9, .input_tokens = 9},
                                          .reservation = id});
  EXPECT_EQ(answer.amounts, (api::Amounts{.requests = 2, .input_tokens = 20}));
  EXPECT_EQ(used(), 20U);
  EXPECT_EQ(driver_.used("m", "rpm"), 2U);
}

TEST_F(Ending, settle_does_not_charge_cached_input) {
  api::Limit counted = limit_of("all", Metric::input_tokens, 100);
  counted.count_cached = true;
  driver_.put("m", {tpm(100), counted});
  driver_.settle(reserve(), 50, 8, 40);
  EXPECT_EQ(used(), 18U);
  EXPECT_EQ(driver_.used("m", "all"), 50U);
}

// The input is as reserved when none is given: no more than that is cached.
TEST_F(Ending, cached_input_is_a_part_of_the_input_that_stays) {
  api::Limit counted = limit_of("all", Metric::input_tokens, 100);
  counted.count_cached = true;
  driver_.put("m", {tpm(100), counted});
  const auto settle_cached = [&](uint64_t id, uint64_t cached) {
    return driver_.ask({.op = QuotaOp::settle,
                        .given_bits = api::given::output_tokens,
                        .amounts = {.output_tokens = 8},
                        .cached_input_tokens = cached,
                        .reservation = id});
  };
  EXPECT_EQ(settle_cached(reserve(30), 20).amounts.input_tokens, 30U);
  EXPECT_EQ(used(), 18U);
  EXPECT_EQ(settle_cached(reserve(30), 50).amounts.input_tokens, 30U);
  EXPECT_EQ(used(), 26U);
  EXPECT_EQ(driver_.used("m", "all"), 60U);
}

TEST_F(Ending, a_deficit_goes_above_the_limit_and_the_next_ones_are_denied) {
  driver_.settle(reserve(60), 60, 90);
  EXPECT_EQ(used(), 150U);
  EXPECT_EQ(driver_.limit("m", "tpm").remaining, 0U);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(0)).code, QuotaCode::tpm_exceeded);
  driver_.advance_ms(60'000);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(100)).code, QuotaCode::ok);
}

TEST_F(Ending, a_deficit_is_charged_when_it_is_settled) {
  driver_.put("m", {limit_of("l", Metric::tokens, 100, LimitKind::sliding, 15'000)});
  const uint64_t id = reserve(10);
  driver_.advance_ms(8'000);
  driver_.settle(id, 30);
  driver_.advance_ms(8'000);  // the estimate is forgotten, the deficit is not
  EXPECT_EQ(driver_.used("m", "l"), 20U);
}

TEST_F(Ending, a_refund_of_a_period_that_is_over_changes_nothing) {
  const uint64_t id = reserve(60);
  driver_.extend(id, 600'000);
  driver_.advance_ms(60'000);
  driver_.record({"m"}, {.requests = 0, .input_tokens = 70});
  EXPECT_EQ(driver_.settle(id, 10).code, QuotaCode::ok);
  EXPECT_EQ(used(), 70U);
}

TEST_F(Ending, a_refund_goes_to_the_sub_window_it_was_charged_in) {
  driver_.put("m", {limit_of("l", Metric::tokens, 100, LimitKind::sliding, 15'000)});
  const uint64_t id = reserve(60);
  driver_.advance_ms(8'000);
  driver_.record({"m"}, {.input_tokens = 40});
  driver_.settle(id, 20);
  EXPECT_EQ(driver_.used("m", "l"), 60U);
  driver_.advance_ms(8'000);
  EXPECT_EQ(driver_.used("m", "l"), 40U);
}

// The window was opened by serving a queue, with no call in between.
TEST_F(Ending, a_refund_knows_its_window_when_a_waiter_that_left_opened_the_next) {
  QuotaCall call = asking_tokens(60);
  call.lifetime_ms = 600'000;
  const uint64_t all = reserve(100);
  driver_.reserve({"m"}, waiting(call, 1));
  const QuotaAnswer second = driver_.reserve({"m"}, waiting(asking_tokens(70), 2));
  driver_.reserve({"m"}, waiting(asking_tokens(30), 3));
  driver_.cancel(all);
  ASSERT_EQ(driver_.served(), std::vector<api::Ticket>{1});
  const uint64_t first = driver_.granted;
  driver_.ns += 60 * base::ns_per_s;
  driver_.store.abandon(second.waiter, 2, driver_.now());
  ASSERT_EQ(driver_.served(), std::vector<api::Ticket>{3});
  driver_.cancel(first);
  EXPECT_EQ(used(), 30U);
  EXPECT_EQ(driver_.limit("m", "tpm").reserved, 30U);
}

TEST_F(Ending, a_late_settle_still_corrects_what_was_charged) {
  const uint64_t id = driver_
                          .reserve({"m"},
                                   [] {
                                     QuotaCall call = asking_tokens(60);
                                     call.lifetime_ms = 1'000;
                                     return call;
                                   }())
                          .reservation;
  driver_.advance_ms(1'000);
  EXPECT_EQ(used(), 60U);
  EXPECT_EQ(slots_used(), 0U);
  const QuotaAnswer answer = driver_.settle(id, 20);
  EXPECT_EQ(answer.code, QuotaCode::ok);
  EXPECT_TRUE(answer.late);
  EXPECT_EQ(answer.state, ReservationState::settled);
  EXPECT_EQ(used(), 20U);
  EXPECT_EQ(driver_.settle(id, 1).amounts.input_tokens, 20U);
}

TEST_F(Ending, ids_that_were_never_given_are_unknown) {
  const uint64_t id = reserve();
  for (const uint64_t wrong :
       {uint64_t{0}, id + 1, id ^ (uint64_t{1} << 32), id | (uint64_t{1} << 56), ~uint64_t{0}}) {
    EXPECT_EQ(driver_.settle(wrong, 1).code, QuotaCode::unknown_reservation);
    EXPECT_EQ(driver_.cancel(wrong).code, QuotaCode::unknown_reservation);
    EXPECT_EQ(driver_.extend(wrong).code, QuotaCode::unknown_reservation);
    EXPECT_EQ(driver_.ask({.op = QuotaOp::show, .reservation = wrong}).code,
              QuotaCode::unknown_reservation);
  }
  EXPECT_EQ(used(), 60U);
}

TEST_F(Ending, ids_of_another_start_are_unknown) {
  const uint64_t id = reserve();
  StoreDriver other({.subjects_max = 10,
                     .reservations_max = 10,
                     .waiters_max = 10,
                     .name_seed = 42,
                     .id_seed = 43});
  other.put("m", {tpm(100)});
  other.reserve({"m"}, asking_tokens(60));
  EXPECT_EQ(other.settle(id, 1).code, QuotaCode::unknown_reservation);
}

TEST_F(Ending, a_settled_id_is_forgotten_when_its_lifetime_ends) {
  const uint64_t id = reserve();
  driver_.settle(id, 1);
  driver_.advance_ms(59'999);
  EXPECT_EQ(driver_.settle(id, 1).code, QuotaCode::ok);
  driver_.advance_ms(1);
  EXPECT_EQ(driver_.settle(id, 1).code, QuotaCode::unknown_reservation);
}

// -------------------------------------------------------------------------------------- cancel

TEST_F(Ending, cancel_refunds_everything) {
  const uint64_t id = reserve();
  const QuotaAnswer answer = driver_.cancel(id);
  EXPECT_EQ(answer.code, QuotaCode::ok);
  EXPECT_EQ(answer.state, ReservationState::cancelled);
  EXPECT_EQ(answer.amounts, (api::Amounts{.requests = 0}));
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(driver_.used("m", "rpm"), 0U);
  EXPECT_EQ(slots_used(), 0U);
  EXPECT_EQ(driver_.cancel(id).code, QuotaCode::ok);
  EXPECT_EQ(slots_used(), 0U);
}

TEST_F(Ending, cancel_keeps_the_request_if_the_call_wants_it) {
  driver_.cancel(reserve(), api::quota_flag::keep_requests);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(driver_.used("m", "rpm"), 1U);
}

TEST_F(Ending, a_settled_one_is_not_cancelled_nor_the_other_way_round) {
  const uint64_t settled = reserve(20);
  driver_.settle(settled, 20);
  EXPECT_EQ(driver_.cancel(settled).code, QuotaCode::already_settled);
  EXPECT_EQ(used(), 20U);
  const uint64_t cancelled = reserve(20);
  driver_.cancel(cancelled);
  EXPECT_EQ(driver_.settle(cancelled, 20).code, QuotaCode::already_cancelled);
  EXPECT_EQ(used(), 20U);
}

TEST_F(Ending, a_refunded_grant_cancels_its_reservation) {
  const uint64_t id = reserve();
  EXPECT_TRUE(driver_.store.refund({.reservation = id}, driver_.now()));
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(driver_.used("m", "rpm"), 0U);
  EXPECT_FALSE(driver_.store.refund({.reservation = id + 1}, driver_.now()));
}

TEST_F(Ending, an_undelivered_reservation_is_cancelled) {
  const uint64_t id = reserve();
  EXPECT_EQ(driver_.cancel(id, api::quota_flag::undelivered).code, QuotaCode::ok);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(slots_used(), 0U);
}

// Another client may have got it as a repeat under its id: then it is in use.
TEST_F(Ending, one_with_an_id_stays_although_an_answer_was_lost) {
  const QuotaCall call = with_id(asking_tokens(60), "call");
  const uint64_t id = driver_.reserve({"m"}, call).reservation;
  ASSERT_EQ(driver_.reserve({"m"}, call).reservation, id);
  EXPECT_EQ(driver_.cancel(id, api::quota_flag::undelivered).code, QuotaCode::id_in_use);
  EXPECT_FALSE(driver_.store.refund({.reservation = id}, driver_.now()));
  EXPECT_EQ(used(), 60U);
  EXPECT_EQ(slots_used(), 1U);
}

TEST_F(Ending, one_with_an_id_stays_charged_when_it_has_expired) {
  driver_.put("n", {limit_of("hour", Metric::tokens, 100, LimitKind::fixed, 3'600'000)});
  const uint64_t id = driver_.reserve({"n"}, with_id(asking_tokens(60), "call")).reservation;
  driver_.advance_ms(60'000);
  ASSERT_EQ(driver_.row("n").open_reservations, 0U);
  EXPECT_EQ(driver_.cancel(id, api::quota_flag::undelivered).code, QuotaCode::id_in_use);
  EXPECT_FALSE(driver_.store.refund({.reservation = id}, driver_.now()));
  EXPECT_EQ(driver_.used("n", "hour"), 60U);
}

// -------------------------------------------------------------------------------------- extend

TEST_F(Ending, extend_gives_it_another_lifetime_from_now) {
  const uint64_t id = reserve();
  driver_.advance_ms(50'000);
  const QuotaAnswer answer = driver_.extend(id, 30'000);
  EXPECT_EQ(answer.code, QuotaCode::ok);
  EXPECT_EQ(answer.state, ReservationState::open);
  EXPECT_EQ(answer.lifetime_ms, 30'000U);
  driver_.advance_ms(29'999);
  EXPECT_EQ(slots_used(), 1U);
  driver_.advance_ms(1);
  EXPECT_EQ(slots_used(), 0U);
}

TEST_F(Ending, extend_without_a_lifetime_takes_the_last_one) {
  const uint64_t id = reserve();
  driver_.extend(id, 5'000);
  driver_.advance_ms(4'000);
  EXPECT_EQ(driver_.extend(id).lifetime_ms, 5'000U);
  driver_.advance_ms(4'999);
  EXPECT_EQ(slots_used(), 1U);
}

TEST_F(Ending, an_ended_one_is_not_extended) {
  const uint64_t settled = reserve(1);
  const uint64_t cancelled = reserve(1);
  const uint64_t expired = reserve(1);
  driver_.extend(settled, 200'000);
  driver_.extend(cancelled, 200'000);
  driver_.settle(settled, 1);
  driver_.cancel(cancelled);
  driver_.advance_ms(60'000);
  EXPECT_EQ(driver_.extend(settled).code, QuotaCode::already_settled);
  EXPECT_EQ(driver_.extend(cancelled).code, QuotaCode::already_cancelled);
  EXPECT_EQ(driver_.extend(expired).code, QuotaCode::already_expired);
}

// -------------------------------------------------------------------------------------- expiry

TEST_F(Ending, expiry_keeps_the_charge_and_frees_the_slot) {
  driver_.put("m", {limit_of("l", Metric::tokens, 100, LimitKind::fixed, 3'600'000), slots(1)});
  reserve();
  driver_.advance_ms(59'999);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::concurrency_exceeded);
  driver_.advance_ms(1);
  EXPECT_EQ(driver_.used("m", "l"), 60U);
  EXPECT_EQ(driver_.limit("m", "l").reserved, 0U);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::ok);
  EXPECT_EQ(driver_.store.statistics().expired, 1U);
}

TEST_F(Ending, expiry_refunds_where_the_quota_refunds_expired_ones) {
  Quota quota =
      quota_of({limit_of("l", Metric::tokens, 100, LimitKind::fixed, 3'600'000), slots(1)});
  quota.refund_expired = true;
  driver_.put("m", quota);
  const uint64_t id = reserve();
  driver_.advance_ms(60'000);
  EXPECT_EQ(driver_.used("m", "l"), 0U);
  EXPECT_EQ(driver_.used("m", "slots"), 0U);
  // A late settle charges what was used.
  EXPECT_TRUE(driver_.settle(id, 40).late);
  EXPECT_EQ(driver_.used("m", "l"), 40U);
}

TEST_F(Ending, an_expired_one_is_remembered_for_as_long_again) {
  const uint64_t id = reserve();
  driver_.advance_ms(119'999);
  EXPECT_EQ(driver_.settle(id, 1).code, QuotaCode::ok);
  const uint64_t other = reserve(1);
  driver_.advance_ms(60'000);
  driver_.advance_ms(60'000);
  EXPECT_EQ(driver_.settle(other, 1).code, QuotaCode::unknown_reservation);
}

TEST_F(Ending, a_lifetime_is_the_servers_when_none_is_given) {
  policy::QuotaBook book({.rules = {}, .lifetime_ms = 2'000});
  driver_.store.adopt(book, driver_.now());
  QuotaCall call = asking_tokens(1);
  call.lifetime_ms = 0;
  EXPECT_EQ(driver_.reserve({"m"}, call).lifetime_ms, 2'000U);
  driver_.advance_ms(2'000);
  EXPECT_EQ(driver_.store.reservations_count(), 0U);
}

// ------------------------------------------------------------------------------ connection-bound
// ones and leases

TEST_F(Ending, a_connection_that_ends_expires_its_bound_reservations) {
  QuotaCall connection_bound = asking_tokens(10);
  connection_bound.binding = 7;
  QuotaCall other = asking_tokens(10);
  other.binding = 7 + 1'024;  // the same list inside
  const uint64_t first = driver_.reserve({"m"}, connection_bound).reservation;
  driver_.reserve({"m"}, connection_bound);
  driver_.reserve({"m"}, other);
  reserve(10);
  driver_.settle(first, 5);
  EXPECT_EQ(driver_.ask({.op = QuotaOp::end_binding, .binding = 7}).code, QuotaCode::ok);
  EXPECT_EQ(slots_used(), 2U);
  EXPECT_EQ(used(), 35U);  // expired, not cancelled
  EXPECT_EQ(driver_.store.statistics().expired, 1U);
  driver_.ask({.op = QuotaOp::end_binding, .binding = 7 + 1'024});
  EXPECT_EQ(slots_used(), 1U);
}

TEST_F(Ending, a_lease_is_released_by_its_id) {
  driver_.put("printer", {slots(2)});
  const QuotaCall call = asking({.requests = 0});
  const uint64_t first = driver_.reserve({"printer"}, call).reservation;
  driver_.reserve({"printer"}, call);
  const QuotaAnswer third = driver_.reserve({"printer"}, call);
  EXPECT_EQ(third.code, QuotaCode::concurrency_exceeded);
  EXPECT_EQ(third.retry_after_ms, 1'000);  // the time is unknown
  driver_.cancel(first);
  EXPECT_EQ(driver_.reserve({"printer"}, call).code, QuotaCode::ok);
}

TEST_F(Ending, slots_stand_beside_a_window_of_the_same_subject) {
  driver_.put("m", {rpm(3), slots(2)});
  const uint64_t first = reserve(1);
  reserve(1);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::concurrency_exceeded);
  driver_.settle(first, 1);
  const uint64_t third = reserve(1);
  driver_.settle(third, 1);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::rpm_exceeded);
}

TEST_F(Ending, a_slot_limit_put_at_run_time_counts_what_is_open_already) {
  driver_.put("m", {tpm(100)});
  const uint64_t first = reserve(1);
  reserve(1);
  driver_.put("m", {tpm(100), slots(2)});
  EXPECT_EQ(slots_used(), 2U);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::concurrency_exceeded);
  driver_.cancel(first);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::ok);
}

// No client has its answer, and none can get it again: its connection ends.
TEST_F(Ending, an_undelivered_bound_one_is_cancelled_also_with_an_id) {
  driver_.put("m", {tpm(100)});
  for (const bool by_call : {false, true}) {
    QuotaCall call = with_id(asking_tokens(60), "mine");
    call.binding = 7;
    const uint64_t id = driver_.reserve({"m"}, call).reservation;
    if (by_call) {
      EXPECT_EQ(driver_.cancel(id, api::quota_flag::undelivered).code, QuotaCode::ok);
    } else {
      EXPECT_TRUE(driver_.store.refund({.reservation = id}, driver_.now()));
    }
    driver_.ask({.op = QuotaOp::end_binding, .binding = 7});
    EXPECT_EQ(driver_.used("m", "tpm"), 0U) << by_call;
  }
}

// Another call got its answer: only the repeat is lost.
TEST_F(Ending, a_bound_one_that_was_repeated_stays_when_the_repeat_is_lost) {
  driver_.put("m", {slots(1)});
  QuotaCall call = with_id(asking({.requests = 0}), "mine");
  call.binding = 7;
  const uint64_t id = driver_.reserve({"m"}, call).reservation;
  call.binding = 8;
  EXPECT_EQ(driver_.reserve({"m"}, call).reservation, id);
  EXPECT_FALSE(driver_.store.refund({.reservation = id}, driver_.now()));
  EXPECT_EQ(driver_.cancel(id, api::quota_flag::undelivered).code, QuotaCode::id_in_use);
  EXPECT_EQ(slots_used(), 1U);
  driver_.ask({.op = QuotaOp::end_binding, .binding = 7});
  EXPECT_EQ(slots_used(), 0U);
}

TEST_F(Ending, a_bucket_with_its_limit_set_to_zero_refunds_the_reservation) {
  driver_.put("m", {limit_of("l", Metric::tokens, 60, LimitKind::gcra, 60'000)});
  const uint64_t id = reserve(60);
  driver_.put("m", {limit_of("l", Metric::tokens, 0, LimitKind::gcra, 60'000)});
  EXPECT_EQ(driver_.used("m", "l"), 60U);
  driver_.cancel(id);
  EXPECT_EQ(driver_.used("m", "l"), 0U);
}

TEST_F(Ending, a_bucket_of_a_year_refunds_everything_however_often) {
  driver_.put("m", {limit_of("l", Metric::tokens, 60, LimitKind::gcra, 365LL * 86'400'000)});
  for (int pair = 0; pair < 1'000; ++pair) {
    const uint64_t id = reserve(60);
    ASSERT_NE(id, 0U) << pair;
    driver_.cancel(id);
    ASSERT_EQ(driver_.used("m", "l"), 0U) << pair;
    driver_.put("m", {limit_of("l", Metric::tokens, 60, LimitKind::gcra, 365LL * 86'400'000)});
  }
}

TEST_F(Ending, a_bucket_refunds_each_reservation_in_any_order) {
  driver_.put("m", {limit_of("l", Metric::tokens, 1'000, LimitKind::gcra, 60'000)});
  const uint64_t first = reserve(500);
  const uint64_t second = reserve(500);
  driver_.cancel(second);
  EXPECT_EQ(driver_.used("m", "l"), 500U);
  driver_.cancel(first);
  EXPECT_EQ(driver_.used("m", "l"), 0U);
}

TEST_F(Ending, a_bucket_refunds_what_has_not_leaked) {
  driver_.put("m", {limit_of("l", Metric::tokens, 60, LimitKind::gcra, 60'000)});
  const uint64_t first = reserve(10);
  driver_.advance_ms(4'000);
  const uint64_t second = reserve(20);
  driver_.cancel(first);
  EXPECT_EQ(driver_.used("m", "l"), 20U);
  driver_.cancel(second);
  EXPECT_EQ(driver_.used("m", "l"), 0U);
}

// ------------------------------------------------------------------- what the engine has to serve

class LifecycleAlone : public testing::Test {
 protected:
  using Ended = ReservationLifecycle::Ended;

  explicit LifecycleAlone(uint32_t step_work = 1'000)
      : budget_(step_work), subject_(tables_.make("m", {slots(9)})) {}
  ~LifecycleAlone() override {
    tables_.subjects.check_invariants();
    tables_.reservations.check_invariants();
  }

  Reservation& open(uint64_t connection = 0) {
    Request request = TableDriver::request(subject_);
    request.connection = connection;
    return tables_.open(request);
  }
  void wait() { tables_.queues.join(TableDriver::request(subject_), {api::QuotaCall{}}); }
  bool is_marked() const { return !tables_.subjects.to_serve().empty(); }

  TableDriver tables_;
  WorkBudget budget_;
  const SubjectIndex subject_;
  std::deque<api::QuotaCall> outgoing_;
  ReservationLifecycle lifecycle_{tables_.clock,        budget_,        tables_.subjects,
                                  tables_.reservations, tables_.queues, outgoing_,
                                  tables_.statistics};
  QuotaAnswer answer_;
};

// Where a settle looks first, which is not where its reservation is.
constexpr ReservationBook::Pool::Index anywhere = 0;

TEST_F(LifecycleAlone, an_end_is_reported_and_marks_the_queues_that_it_may_help) {
  wait();
  const uint64_t id = open().id;
  EXPECT_FALSE(is_marked());
  EXPECT_EQ(lifecycle_.settle({.reservation = id}, anywhere, answer_), Ended::whole);
  EXPECT_TRUE(is_marked());
  EXPECT_EQ(tables_.statistics.settled, 1U);
}

TEST_F(LifecycleAlone, a_repeated_end_and_one_of_nothing_are_no_ends) {
  wait();
  const uint64_t id = open().id;
  lifecycle_.cancel({.reservation = id}, answer_);
  tables_.subjects.to_serve().take();
  EXPECT_EQ(lifecycle_.cancel({.reservation = id}, answer_), Ended::no);
  EXPECT_EQ(answer_.code, QuotaCode::ok);
  EXPECT_EQ(lifecycle_.settle({.reservation = id}, anywhere, answer_), Ended::no);
  EXPECT_EQ(answer_.code, QuotaCode::already_cancelled);
  EXPECT_EQ(lifecycle_.settle({.reservation = id + 1}, anywhere, answer_), Ended::no);
  EXPECT_EQ(answer_.code, QuotaCode::unknown_reservation);
  EXPECT_FALSE(is_marked());
}

// As of one whose subjects a start with more shards has parted: its id does not say so.
TEST_F(LifecycleAlone, parts_on_other_shards_end_and_expire_with_it) {
  const auto open_apart = [&] {
    Reservation& made = open();
    made.subjects_count = 3;
    made.subjects[1] = made.subjects[2] = no_subject;
    tables_.reservations.add_parts(made, {no_subject, subject_of_shard(4), subject_of_shard(4)});
    EXPECT_FALSE(proto::reservation_id::has_several_shards(made.id));
    return made.id;
  };
  const uint64_t settled = open_apart();
  EXPECT_EQ(lifecycle_.settle({.reservation = settled}, anywhere, answer_), Ended::with_parts);
  std::vector<api::PartEnd> ends;
  lifecycle_.take_parts(7, ends);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].call, 7U);
  EXPECT_EQ(ends[0].shard, 4U);
  EXPECT_EQ(lifecycle_.settle({.reservation = settled}, anywhere, answer_), Ended::no);
  EXPECT_EQ(lifecycle_.cancel({.reservation = open().id}, answer_), Ended::whole);
  const uint64_t expired = open_apart();
  lifecycle_.end_lifetime(*tables_.reservations.find(expired));
  ASSERT_EQ(outgoing_.size(), 1U);
  EXPECT_EQ(outgoing_[0].op, api::QuotaOp::expire_part);
  EXPECT_EQ(outgoing_[0].shard, 4U);
  EXPECT_EQ(outgoing_[0].reservation, expired);
}

TEST_F(LifecycleAlone, a_lifetime_ends_in_expiry_and_then_in_being_forgotten) {
  wait();
  Reservation& made = open();
  const uint64_t id = made.id;
  lifecycle_.end_lifetime(made);
  EXPECT_TRUE(is_marked());
  EXPECT_EQ(tables_.statistics.expired, 1U);
  EXPECT_EQ(made.state, ReservationState::expired);
  lifecycle_.end_lifetime(made);
  EXPECT_EQ(tables_.reservations.find(id), nullptr);
}

class LifecycleInSlices : public LifecycleAlone {
 protected:
  LifecycleInSlices() : LifecycleAlone(1) {}
};

TEST_F(LifecycleInSlices, bound_reservations_end_as_the_budget_allows) {
  for (int reservation = 0; reservation < 3; ++reservation) open(7);
  EXPECT_FALSE(lifecycle_.end_connection(8));
  EXPECT_TRUE(lifecycle_.end_connection(7));
  for (uint32_t left = 2; left > 0; --left) {
    EXPECT_EQ(tables_.reservations.open_count(), left);
    budget_.refill();
    lifecycle_.expire_bound();
  }
  EXPECT_EQ(tables_.reservations.open_count(), 0U);
}

}  // namespace
}  // namespace sluice::quota
