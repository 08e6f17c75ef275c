// Goal:   whatever happens to a waiter of two shards while they are asked for it, it has one
//         outcome, and nothing of it stays on either shard.
// Method: two stores; the steps of a try by hand, and something else between them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/quota/sharded_stores.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::QuotaCode;
using api::QuotaOp;

constexpr api::Ticket ticket = 7;
constexpr uint64_t connection = 99;

class SpreadWaitingTest : public testing::Test {
 protected:
  SpreadWaitingTest() {
    for (int number = 0; names_.size() < 2; ++number) {
      const std::string name = "s" + std::to_string(number);
      if (stores_.shard_of(name) == names_.size()) names_.push_back(name);
    }
    for (const std::string& name : names_) put(name, 1);
    holder_ = ask({.lifetime_ms = 60'000}, {names_[1]}).answers[0].reservation;
  }
  ~SpreadWaitingTest() override { stores_.check_invariants(now_); }

  api::QuotaBatch ask(api::QuotaCall call, const std::vector<std::string>& names) {
    StoreTask task;
    call.given_bits = 0xFF;
    call.subjects_count = static_cast<uint8_t>(names.size());
    task.batch.calls = {call};
    task.batch.subjects.assign(names.begin(), names.end());
    if (call.ticket == ticket) task.batch.wait_answers = {&lent_};
    stores_.decide(task, now_);
    return std::move(task.batch);
  }
  void put(const std::string& name, uint64_t amount) { put(name, quota_of({slots(amount)})); }
  void put(const std::string& name, const api::Quota& quota) {
    StoreTask task;
    task.batch.calls = {{.op = QuotaOp::put, .subjects_count = 1}};
    task.batch.subjects = {name};
    task.batch.new_quotas = {quota};
    stores_.decide(task, now_);
  }
  // Waits for both subjects; the second is held.
  void wait(const api::QuotaCall& terms = {}) {
    api::QuotaCall call = terms;
    call.flags = api::quota_flag::may_wait;
    call.ticket = ticket;
    call.lifetime_ms = 60'000;
    const api::QuotaBatch batch = ask(call, names_);
    ASSERT_EQ(batch.answers[0].code, QuotaCode::queued);
    waiter_ = batch.answers[0].waiter;
  }
  void free_second() {
    StoreTask task;
    task.batch.calls = {{.op = QuotaOp::cancel, .reservation = holder_}};
    stores_.decide(task, now_);
    for (uint32_t shard : {1U, 0U}) stores_.bring_calls(stores_[shard], now_);
  }
  // A call that came before the waiter, and takes the second's slot.
  uint64_t reserve_ahead() {
    StoreTask task;
    task.batch.calls = {{.given_bits = 0xFF, .subjects_count = 1, .lifetime_ms = 60'000}};
    task.batch.subjects = {names_[1]};
    stores_.start(task);
    task.batch.arrival = {.ns = 0, .number = 1};
    while (!task.is_decided) stores_.step(task, now_);
    return task.batch.answers[0].reservation;
  }
  // Until all shards are asked, and the verdict is there.
  void begin_try() {
    ASSERT_TRUE(home().has_tries());
    stores_.start_try(home(), try_);
    for (int steps = 0; steps < 2; ++steps) stores_.step(try_, now_);
  }
  void finish_try() {
    while (!try_.is_decided) stores_.step(try_, now_);
    stores_.end_try(try_, now_);
    stores_.finish_own(now_);
  }
  QuotaStore& home() { return stores_[0]; }
  QuotaCode outcome() {
    EXPECT_EQ(home().grants().size(), 1U);
    return home().grants().empty() ? QuotaCode::none : home().grants()[0].code;
  }
  void expect_left(uint32_t open) {
    for (const std::string& name : names_) {
      const api::QuotaBatch batch = ask({.op = QuotaOp::usage}, {name});
      EXPECT_EQ(batch.rows[0].waiting, 0U) << name;
      EXPECT_EQ(batch.rows[0].open_reservations, open) << name;
    }
    EXPECT_EQ(home().waiters_count(), 0U);
  }

  ShardedStores stores_{2, {.subjects_max = 20, .reservations_max = 20, .waiters_max = 20}};
  base::Now now_{.monotonic_ns = base::ns_per_s, .wall_ns = base::ns_per_s};
  std::vector<std::string> names_;
  uint64_t holder_ = 0;
  api::WaiterId waiter_ = api::no_waiter;
  StoreTask try_;
  api::WaitAnswer lent_;
};

TEST_F(SpreadWaitingTest, it_is_admitted_with_the_limits_of_all_shards) {
  wait();
  free_second();
  begin_try();
  finish_try();
  EXPECT_EQ(outcome(), QuotaCode::ok);
  EXPECT_EQ(lent_.answer.limits_count, 2U);
  ASSERT_EQ(lent_.limits.size(), 2U);
  EXPECT_EQ(lent_.limits[0].subject, 0U);
  EXPECT_EQ(lent_.limits[1].subject, 1U);
  EXPECT_EQ(lent_.limits[1].used, 1U);
  expect_left(1);
}

// Of other nodes: its parts here have left with the charge, and are not looked for any more.
TEST_F(SpreadWaitingTest, an_admission_that_is_not_confirmed_ends_the_wait) {
  wait();
  free_second();
  begin_try();
  while (!try_.is_decided) stores_.step(try_, now_);
  const uint64_t made = try_.batch.answers[0].reservation;
  try_.batch.answers[0] = {.code = QuotaCode::owner_unreachable};
  try_.batch.spread[0].is_unconfirmed = true;
  stores_.end_try(try_, now_);
  EXPECT_EQ(outcome(), QuotaCode::owner_unreachable);
  EXPECT_TRUE(home().outgoing_calls().empty());
  expect_left(1);
  StoreTask task;
  task.batch.calls = {{.op = QuotaOp::cancel, .reservation = made}};
  stores_.decide(task, now_);
  expect_left(0);
}

TEST_F(SpreadWaitingTest, a_leave_that_comes_late_takes_no_other_waiter_out) {
  wait();
  StoreTask task;
  task.batch.calls = {{.op = QuotaOp::leave_queues, .shard = 1, .waiter = 0, .cursor = 12'345}};
  stores_.decide(task, now_);
  EXPECT_EQ(ask({.op = QuotaOp::usage}, {names_[1]}).rows[0].waiting, 1U);
}

TEST_F(SpreadWaitingTest, its_position_awaits_the_verdict_of_a_try) {
  wait({.client_id = "job"});
  api::QuotaBatch batch;
  batch.calls = {{.op = QuotaOp::position, .subjects_count = 2, .client_id = "job"}};
  batch.subjects.assign(names_.begin(), names_.end());
  batch.make_answers();
  home().decide(batch, now_, 0);
  EXPECT_EQ(batch.answers[0].position, 1U);
  free_second();
  begin_try();
  batch.make_answers();
  home().decide(batch, now_, 0);
  EXPECT_TRUE(batch.awaits_verdict);
  finish_try();
  EXPECT_EQ(outcome(), QuotaCode::ok);
  home().decide(batch, now_, 0);
  EXPECT_FALSE(batch.awaits_verdict);
  EXPECT_EQ(batch.answers[0].position, 0U);
}

TEST_F(SpreadWaitingTest, a_withdrawal_during_a_try_comes_too_late_if_it_is_admitted) {
  wait();
  free_second();
  begin_try();
  EXPECT_FALSE(home().withdraw(waiter_, ticket, now_));
  finish_try();
  EXPECT_EQ(outcome(), QuotaCode::ok);
  expect_left(1);
}

TEST_F(SpreadWaitingTest, a_withdrawal_during_a_try_that_fails_takes_effect_after_it) {
  wait();
  free_second();
  stores_.start_try(home(), try_);
  EXPECT_FALSE(home().withdraw(waiter_, ticket, now_));
  ASSERT_NE(reserve_ahead(), 0U);
  finish_try();
  EXPECT_EQ(outcome(), QuotaCode::withdrawn);
  EXPECT_EQ(home().waiters_count(), 0U);
  EXPECT_EQ(ask({.op = QuotaOp::usage}, {names_[1]}).rows[0].waiting, 0U);
}

TEST_F(SpreadWaitingTest, one_that_does_not_fit_any_more_goes_on_waiting) {
  wait();
  free_second();
  stores_.start_try(home(), try_);
  holder_ = reserve_ahead();
  ASSERT_NE(holder_, 0U);
  finish_try();
  EXPECT_TRUE(home().grants().empty());
  EXPECT_EQ(home().waiters_count(), 1U);
  EXPECT_FALSE(home().has_tries()) << "before something has changed";
  free_second();
  stores_.finish_own(now_);
  EXPECT_EQ(outcome(), QuotaCode::ok);
  expect_left(1);
}

TEST_F(SpreadWaitingTest, an_abandoned_waiter_that_is_admitted_leaves_nothing_bound) {
  wait({.binding = connection});
  free_second();
  begin_try();
  EXPECT_FALSE(home().abandon(waiter_, ticket, now_));
  StoreTask ended;
  ended.batch.calls = {{.op = QuotaOp::end_binding, .binding = connection}};
  stores_.decide(ended, now_);
  finish_try();
  EXPECT_EQ(outcome(), QuotaCode::ok);
  expect_left(0);
}

// The link to the client's node was lost, and the client is still connected to that node.
TEST_F(SpreadWaitingTest, an_abandoned_waiter_that_is_admitted_ends_nothing_else_of_its_client) {
  put("other", 1);
  const api::QuotaCall bound{.lifetime_ms = 60'000, .binding = connection};
  ASSERT_EQ(ask(bound, {"other"}).answers[0].code, QuotaCode::ok);
  wait({.binding = connection});
  free_second();
  begin_try();
  EXPECT_FALSE(home().abandon(waiter_, ticket, now_));
  finish_try();
  expect_left(0);
  EXPECT_EQ(ask({.op = QuotaOp::usage}, {"other"}).rows[0].open_reservations, 1U);
}

TEST_F(SpreadWaitingTest, a_drain_during_a_try_ends_the_wait_after_it) {
  wait();
  free_second();
  stores_.start_try(home(), try_);
  try_.batch.calls[0].flags |= api::quota_flag::draining;
  ASSERT_NE(reserve_ahead(), 0U);
  home().drain(now_);
  EXPECT_TRUE(home().grants().empty());
  finish_try();
  EXPECT_EQ(outcome(), QuotaCode::draining);
  EXPECT_EQ(lent_.answer.limits_count, 0U);
  EXPECT_EQ(home().grants()[0].detail.retry_after_ms, limits::unknown_retry_after_ms);
}

// It is behind another one in the other shard's queue.
TEST_F(SpreadWaitingTest, one_that_another_shard_can_never_admit_ends_wherever_it_stands) {
  api::QuotaCall other{.flags = api::quota_flag::may_wait, .lifetime_ms = 60'000, .ticket = 8};
  ASSERT_EQ(ask(other, {names_[1]}).answers[0].code, QuotaCode::queued);
  wait({.amounts = {.requests = 1, .input_tokens = 50}});
  put(names_[1], quota_of({slots(1), tpm(40)}));
  stores_.finish_own(now_);
  EXPECT_EQ(outcome(), QuotaCode::exceeds_limit);
  EXPECT_EQ(home().grants()[0].detail.retry_after_ms, api::retry_never);
  ASSERT_EQ(lent_.limits.size(), 3U) << "of both shards";
  EXPECT_TRUE(lent_.limits[2].violated);
  EXPECT_EQ(home().waiters_count(), 0U);
  EXPECT_EQ(ask({.op = QuotaOp::usage}, {names_[1]}).rows[0].waiting, 1U) << "the other one";
}

TEST_F(SpreadWaitingTest, one_that_its_home_can_never_admit_ends_wherever_it_stands) {
  wait({.amounts = {.requests = 1, .input_tokens = 50}});
  put(names_[0], quota_of({tpm(40)}));
  stores_.finish_own(now_);
  EXPECT_EQ(outcome(), QuotaCode::exceeds_limit);
}

TEST_F(SpreadWaitingTest, the_wait_limit_has_a_last_try_that_reports_what_is_in_the_way) {
  wait({.wait_ms_max = 100});
  now_.monotonic_ns += 100 * base::ns_per_ms;
  stores_.run_due(now_);
  EXPECT_EQ(outcome(), QuotaCode::wait_limit);
  ASSERT_EQ(lent_.answer.limits_count, 2U);
  EXPECT_FALSE(lent_.limits[0].violated);
  EXPECT_TRUE(lent_.limits[1].violated);
}

}  // namespace
}  // namespace sluice::quota
