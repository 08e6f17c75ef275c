// Goal:   work that moves many waiters at once is done in steps, in order, and no newcomer gets in
//         between.
// Method: thousands of waiters or connection-bound reservations, one call that moves them all, and
//         a count of what each step does.
#include <gtest/gtest.h>

#include <numeric>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::Metric;
using api::Quota;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::Ticket;
using Tickets = std::vector<Ticket>;

constexpr uint32_t many = 2'000;
constexpr uint32_t step_work = 200;  // a waiter of one subject takes two, at least

class Steps : public testing::Test {
 protected:
  // Decides `count` calls about one subject.
  void ask(const std::string& name, QuotaCall call, uint32_t count = many,
           Ticket first_ticket = 1) {
    api::QuotaBatch& batch = driver_.batch;
    batch.clear();
    call.subjects_count = 1;
    for (uint32_t index = 0; index < count; ++index) {
      if ((call.flags & api::quota_flag::may_wait) != 0) call.ticket = first_ticket + index;
      call.first_subject = index;
      batch.calls.push_back(call);
      batch.subjects.emplace_back(name);
    }
    batch.make_answers();
    driver_.store.decide(batch, driver_.now());
  }
  // All of its tokens are used, and many wait for one each.
  void make_queue(const Quota& quota, uint32_t wait_ms_max = 0) {
    driver_.put("m", quota);
    driver_.record({"m"}, {.input_tokens = many});
    ask("m", waiting(asking_tokens(1), 0, wait_ms_max));
    ASSERT_EQ(driver_.store.waiters_count(), many);
  }
  // Some are served by now, and the rest step by step, in order.
  void expect_all_in_steps(QuotaCode code) {
    Tickets reported;
    while (reported.size() < many) {
      const std::vector<StoreDriver::Outcome> outcomes = driver_.outcomes();
      ASSERT_GT(outcomes.size(), 0U);
      ASSERT_LE(outcomes.size(), step_work);
      for (const StoreDriver::Outcome& outcome : outcomes) {
        ASSERT_EQ(outcome.code, code);
        reported.push_back(outcome.ticket);
      }
      if (reported.size() < many) {
        ASSERT_LE(driver_.store.next_due_ns(), driver_.ns);
      }
      driver_.advance_ns(0);
    }
    ASSERT_GT(driver_.store.next_due_ns(), driver_.ns);
    Tickets in_order(many);
    std::iota(in_order.begin(), in_order.end(), 1);
    EXPECT_EQ(reported, in_order);
    EXPECT_EQ(driver_.store.waiters_count(), 0U);
  }

  StoreDriver driver_{{.subjects_max = 100,
                       .reservations_max = 2 * many,
                       .waiters_max = 2 * many,  // one subject has half of them
                       .step_work = step_work,
                       .name_seed = 42,
                       .id_seed = 42}};
};

TEST_F(Steps, a_quota_that_allows_all_serves_them_in_order) {
  make_queue(quota_of({tpm(many)}));
  driver_.put("m", {with(tpm(0), api::Ceiling::unlimited)});
  expect_all_in_steps(QuotaCode::unlimited);
}

TEST_F(Steps, a_reset_serves_them_in_order) {
  make_queue(quota_of({tpm(many)}));
  driver_.reset("m");
  expect_all_in_steps(QuotaCode::ok);
}

TEST_F(Steps, a_reset_of_all_serves_them_in_order) {
  make_queue(quota_of({tpm(many)}));
  driver_.ask({.op = QuotaOp::reset_all});
  driver_.advance_ns(0);
  expect_all_in_steps(QuotaCode::ok);
}

TEST_F(Steps, a_quota_that_rules_out_all_ends_their_waits_in_order) {
  make_queue(quota_of({tpm(many)}));
  driver_.put("m", {tpm(0)});
  expect_all_in_steps(QuotaCode::exceeds_limit);
}

// The last of many, and the only one that the new quota can never admit. Other queues go on.
TEST_F(Steps, one_that_a_quota_rules_out_is_found_in_steps) {
  driver_.put("other", {tpm(1)});
  driver_.record({"other"}, {.input_tokens = 1});
  driver_.put("m", {tpm(many)});
  driver_.record({"m"}, {.input_tokens = many});
  ask("m", waiting(asking_tokens(1), 0), many - 1);
  ask("m", waiting(asking_tokens(2), 0), 1, many);
  ask("other", waiting(asking_tokens(1), 0), 1, many + 1);
  driver_.put("m", {tpm(1)});
  driver_.reset("other");
  std::vector<StoreDriver::Outcome> outcomes = driver_.outcomes();
  int steps = 0;
  for (; steps < 100 && driver_.store.next_due_ns() <= driver_.ns; ++steps) {
    driver_.advance_ns(0);
    for (const StoreDriver::Outcome& outcome : driver_.outcomes()) outcomes.push_back(outcome);
  }
  EXPECT_EQ(outcomes, (std::vector<StoreDriver::Outcome>{{many + 1, QuotaCode::ok},
                                                         {many, QuotaCode::exceeds_limit}}));
  EXPECT_GE(steps, static_cast<int>(many / step_work));
}

TEST_F(Steps, a_refund_serves_them_in_order) {
  driver_.put("m", {tpm(many)});
  const uint64_t all = driver_.reserve({"m"}, asking_tokens(many)).reservation;
  ask("m", waiting(asking_tokens(1), 0));
  driver_.cancel(all);
  expect_all_in_steps(QuotaCode::ok);
}

TEST_F(Steps, time_serves_them_in_order) {
  make_queue(quota_of({tpm(many)}));
  driver_.advance_ms(60'000);
  expect_all_in_steps(QuotaCode::ok);
}

TEST_F(Steps, capacity_that_comes_with_the_wait_limits_serves_them_in_order) {
  make_queue(quota_of({tpm(many)}), 60'000);
  driver_.advance_ms(60'000);
  expect_all_in_steps(QuotaCode::ok);
}

// Also the last of the waiters that fit, with the least time to wait.
TEST_F(Steps, waiters_that_fit_are_served_though_their_limits_pass_before_their_step) {
  driver_.put("m", {tpm(many)});
  driver_.record({"m"}, {.input_tokens = many});
  for (uint32_t ticket = 1; ticket <= many; ++ticket) {
    ask("m", waiting(asking_tokens(1), 0, 70'000 - ticket), 1, ticket);
  }
  driver_.advance_ms(80'000);
  expect_all_in_steps(QuotaCode::ok);
}

TEST_F(Steps, wait_limits_end_in_order) {
  driver_.put("m", {tpm(many)});
  QuotaCall holding = asking_tokens(many);
  holding.lifetime_ms = 600'000;
  driver_.reserve({"m"}, holding);
  ask("m", waiting(asking_tokens(1), 0, 50'000));
  driver_.advance_ms(50'000);
  expect_all_in_steps(QuotaCode::wait_limit);
}

TEST_F(Steps, waits_that_never_fit_any_more_end_in_order) {
  make_queue(quota_of({tpm(many)}));
  driver_.put("m", {with(tpm(0), api::Ceiling::block)});
  expect_all_in_steps(QuotaCode::blocked);
}

TEST_F(Steps, a_drain_ends_all_waits) {
  make_queue(quota_of({tpm(many)}));
  driver_.store.drain(driver_.now());
  expect_all_in_steps(QuotaCode::draining);
}

TEST_F(Steps, no_waiter_is_served_while_the_server_drains) {
  make_queue(quota_of({tpm(many)}));
  driver_.store.drain(driver_.now());
  driver_.reset("m");
  expect_all_in_steps(QuotaCode::draining);
}

TEST_F(Steps, a_newcomer_does_not_overtake_waiters_that_fit) {
  Quota quota = quota_of({tpm(2 * many)});
  quota.overtakers_max = 1'000;
  driver_.put("m", quota);
  driver_.record({"m"}, {.input_tokens = 2 * many});
  ask("m", waiting(asking_tokens(1), 0));
  driver_.reset("m");
  while (driver_.store.waiters_count() > 0) {
    ASSERT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::queue_ahead);
    driver_.advance_ns(0);
  }
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::ok);
}

TEST_F(Steps, another_queue_moves_between_two_long_ones) {
  constexpr uint32_t half = many / 2;
  for (const char* name : {"k", "m"}) {
    driver_.put(name, {tpm(many)});
    driver_.record({name}, {.input_tokens = many});
  }
  driver_.put("n", {slots(1)});
  const uint64_t slot = driver_.reserve({"n"}, asking({.requests = 0})).reservation;
  driver_.reserve({"n"}, waiting(asking({.requests = 0}), many));
  ask("k", waiting(asking_tokens(1), 0), half - 1, 1);
  ask("m", waiting(asking_tokens(1), 0), half, half);
  driver_.reset("k");
  driver_.cancel(slot);
  driver_.reset("m");
  driver_.advance_ns(0);  // the first long one ...
  driver_.advance_ns(0);  // ... and the others behind it
  const Tickets served = driver_.served();
  EXPECT_EQ(std::count(served.begin(), served.end(), many), 1);
  EXPECT_GT(driver_.store.waiters_count(), half);
}

TEST_F(Steps, a_newcomer_does_not_overtake_waiters_that_fit_after_a_reset_of_all) {
  Quota quota = quota_of({tpm(2 * many)});
  quota.overtakers_max = 1'000;
  driver_.put("m", quota);
  driver_.record({"m"}, {.input_tokens = 2 * many});
  ask("m", waiting(asking_tokens(1), 0));
  driver_.ask({.op = QuotaOp::reset_all});
  while (driver_.store.waiters_count() > 0) {
    ASSERT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::queue_ahead);
    driver_.advance_ns(0);
  }
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::ok);
}

// A turn decides before it runs what is due.
TEST_F(Steps, a_newcomer_does_not_overtake_waiters_with_a_due_timer) {
  Quota quota = quota_of({tpm(many)});
  quota.overtakers_max = 1'000;
  driver_.put("m", quota);
  driver_.record({"m"}, {.input_tokens = many});
  driver_.reserve({"m"}, waiting(asking_tokens(1), 1));
  driver_.ns += 120'000 * base::ns_per_ms;
  driver_.wall_ns += 120'000 * base::ns_per_ms;
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::queue_ahead);
  driver_.advance_ns(0);
  EXPECT_EQ(driver_.served(), Tickets{1});
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(1)).code, QuotaCode::ok);
}

// The due timer belongs to another subject: a newcomer that may overtake waits for one check.
TEST_F(Steps, a_newcomer_that_may_overtake_waits_only_until_due_timers_of_others_are_fired) {
  Quota quota = quota_of({tpm(many)});
  quota.overtakers_max = 1'000;
  driver_.put("m", quota);
  driver_.put("other", {slots(10)});
  driver_.record({"m"}, {.input_tokens = many - 10});
  driver_.reserve({"m"}, waiting(asking_tokens(100), 1));  // heads the queue for a minute
  QuotaCall brief = asking({.requests = 0});
  brief.lifetime_ms = 10;
  driver_.reserve({"other"}, brief);
  driver_.ns += 11 * base::ns_per_ms;
  const api::QuotaAnswer denied = driver_.reserve({"m"}, asking_tokens(1));
  EXPECT_EQ(denied.code, QuotaCode::queue_ahead);
  EXPECT_EQ(denied.retry_after_ms, 1);
  EXPECT_EQ(driver_.reserve({"m"}, waiting(asking_tokens(1), 2)).code, QuotaCode::queued);
  driver_.advance_ns(0);
  EXPECT_EQ(driver_.served(), Tickets{2});
}

// Queues that are marked again and again, without end: each part has its own share of work.
class Overload : public testing::Test {
 protected:
  static constexpr int queues = 500;

  // In each queue, a slot that is held, and a waiter for it.
  Overload() {
    for (int queue = 0; queue < queues; ++queue) {
      names_.push_back(numbered("s", queue));
      driver_.put(names_.back(), {slots(1)});
      driver_.reserve({names_.back()}, for_long());
      driver_.reserve({names_.back()},
                      waiting(for_long(), static_cast<Ticket>(queue + 1), queue == 7 ? 1'000 : 0));
      driver_.advance_ns(0);
    }
    EXPECT_EQ(driver_.store.waiters_count(), uint32_t{queues});
  }

  static QuotaCall for_long() {
    QuotaCall call = asking({.requests = 0});
    call.lifetime_ms = 600'000;
    return call;
  }
  void mark_all() {
    for (const std::string& name : names_) driver_.reset(name);
  }

  StoreDriver driver_{{.subjects_max = 2 * queues,
                       .reservations_max = 4 * queues,
                       .waiters_max = queues,
                       .step_work = step_work,
                       .name_seed = 42,
                       .id_seed = 42}};
  Names names_;
};

TEST_F(Overload, lifetimes_end) {
  driver_.put("short", {slots(queues)});
  QuotaCall call = asking({.requests = 0});
  call.lifetime_ms = 1'000;
  for (int count = 0; count < queues; ++count) driver_.reserve({"short"}, call);
  driver_.ns += 1'100 * base::ns_per_ms;
  driver_.wall_ns += 1'100 * base::ns_per_ms;
  for (int step = 0; step < 20; ++step) {
    mark_all();
    driver_.advance_ns(0);
  }
  EXPECT_EQ(driver_.store.statistics().expired, uint64_t{queues});
}

TEST_F(Overload, a_wait_limit_ends) {
  driver_.outcomes();
  int64_t ms = 970;
  driver_.advance_ms(ms);
  for (std::vector<StoreDriver::Outcome> reported; reported.empty() && ms < 2'000; ++ms) {
    mark_all();
    driver_.advance_ms(1);
    reported = driver_.outcomes();
  }
  EXPECT_LE(ms, 1'000 + 3 * 2 * queues / step_work);  // when each queue was served
}

TEST_F(Steps, a_wait_limit_that_passes_while_the_server_drains_changes_no_outcome) {
  make_queue(quota_of({tpm(many)}), 60'000);
  driver_.store.drain(driver_.now());
  driver_.ns += 70'000 * base::ns_per_ms;
  expect_all_in_steps(QuotaCode::draining);
}

// A queue that is still to be served becomes empty, and its subject is removed, before that.
TEST_F(Steps, a_subject_stays_until_its_queue_was_served) {
  make_queue(quota_of({tpm(many)}));
  driver_.put("n", {slots(1)});
  const uint64_t slot = driver_.reserve({"n"}, asking({.requests = 0})).reservation;
  driver_.outcomes();
  driver_.store.withdraw(0, 1, driver_.now());
  const api::WaiterId waiter =
      driver_.reserve({"n"}, waiting(asking({.requests = 0}), many + 1)).waiter;
  driver_.outcomes();
  driver_.reset("m");
  driver_.cancel(slot);
  driver_.store.abandon(waiter, many + 1, driver_.now());
  driver_.op(QuotaOp::remove, {}, {"n"});
  driver_.put("o", {slots(1)});
  while (driver_.store.next_due_ns() <= driver_.ns) driver_.advance_ns(0);
  EXPECT_EQ(driver_.store.waiters_count(), 0U);
}

TEST_F(Steps, every_waiter_has_a_place_for_its_outcome) {
  make_queue(quota_of({tpm(many)}));
  driver_.reset("m");
  const size_t served = driver_.store.grants().size();
  ASSERT_GT(served, 0U);
  // The waiters that were served are gone, but their outcomes are not fetched yet.
  while (driver_.reserve({"m"}, waiting(asking_tokens(1), many + 1)).code == QuotaCode::queued) {
  }
  EXPECT_EQ(2 * driver_.store.waiters_count() + served, 2 * many);
  driver_.outcomes();
  EXPECT_EQ(driver_.reserve({"m"}, waiting(asking_tokens(1), many + 1)).code, QuotaCode::queued);
}

// ------------------------------------------------------------------------------ connection-bound

class ConnectionBoundSteps : public Steps {
 protected:
  ConnectionBoundSteps() { driver_.put("m", {slots(2 * many)}); }
  static QuotaCall connection_bound(uint64_t binding) {
    QuotaCall call = asking({.requests = 0});
    call.binding = binding;
    return call;
  }
  void end_binding(uint64_t binding) {
    driver_.ask({.op = QuotaOp::end_binding, .binding = binding});
  }
  uint32_t open() { return driver_.store.reservations_count(); }
};

TEST_F(ConnectionBoundSteps, many_end_in_steps) {
  ask("m", connection_bound(7));
  driver_.reserve({"m"}, connection_bound(8));
  end_binding(7);
  for (uint32_t before = many + 1; before > 1;) {
    const uint32_t left = open();
    ASSERT_LT(left, before);
    ASSERT_LE(before - left, step_work);
    ASSERT_EQ(driver_.store.next_due_ns() <= driver_.ns, left > 1);
    driver_.advance_ns(0);
    before = left;
  }
  EXPECT_GT(driver_.store.next_due_ns(), driver_.ns);
  end_binding(8);
  EXPECT_EQ(open(), 0U);
}

TEST_F(ConnectionBoundSteps, several_end_at_a_time) {
  for (uint64_t binding = 1; binding <= 5; ++binding) ask("m", connection_bound(binding), many / 5);
  driver_.reserve({"m"}, connection_bound(6));
  for (uint64_t binding = 1; binding <= 5; ++binding) end_binding(binding);
  end_binding(3);
  end_binding(99);
  EXPECT_GT(open(), many / 2);
  while (driver_.store.next_due_ns() <= driver_.ns) driver_.advance_ns(0);
  EXPECT_EQ(open(), 1U);
}

TEST_F(ConnectionBoundSteps, one_that_is_bound_while_its_connection_ends_ends_as_well) {
  ask("m", connection_bound(7));
  end_binding(7);
  const uint64_t late = driver_.reserve({"m"}, connection_bound(7)).reservation;
  EXPECT_EQ(driver_.ask({.op = QuotaOp::show, .reservation = late}).state,
            api::ReservationState::open);
  while (driver_.store.next_due_ns() <= driver_.ns) driver_.advance_ns(0);
  EXPECT_EQ(open(), 0U);
  // The next one is open until its connection ends again.
  driver_.reserve({"m"}, connection_bound(7));
  EXPECT_EQ(open(), 1U);
}

TEST_F(ConnectionBoundSteps, one_that_ends_in_another_way_is_unbound) {
  const uint64_t first = driver_.reserve({"m"}, connection_bound(7)).reservation;
  const uint64_t second = driver_.reserve({"m"}, connection_bound(7)).reservation;
  driver_.cancel(second);
  driver_.cancel(first);
  end_binding(7);
  EXPECT_EQ(driver_.store.statistics().expired, 0U);
  ask("m", connection_bound(7));
  end_binding(7);
  while (driver_.store.next_due_ns() <= driver_.ns) driver_.advance_ns(0);
  EXPECT_EQ(driver_.store.statistics().expired, many);
}

// Slots that an end frees go to waiters, also of other connections.
TEST_F(ConnectionBoundSteps, freed_slots_serve_waiters_in_steps) {
  driver_.put("m", {slots(many)});
  ask("m", connection_bound(7));
  ask("m", waiting(connection_bound(8), 0));
  ASSERT_EQ(driver_.store.waiters_count(), many);
  end_binding(7);
  driver_.advance_ns(0);  // they are served with another share of work
  expect_all_in_steps(QuotaCode::ok);
  EXPECT_EQ(open(), many);
}

}  // namespace
}  // namespace sluice::quota
