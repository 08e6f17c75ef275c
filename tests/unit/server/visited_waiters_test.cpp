// Goal: a try finds the parts that wait for it, and what its home forgets leaves its queues.
// Method: the test plays the shards, which have given the parts their places.
#include "server/visited_waiters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

namespace sluice::server {
namespace {

using api::SpreadCall;
using State = SpreadCall::State;

constexpr int64_t timeout_ms = 500;

class VisitedWaitersTest : public ::testing::Test {
 protected:
  // One call, at this place of its batch: with subjects of shards 4 and 6 here.
  static api::QuotaBatch verdict(State state, uint32_t place = 0, bool is_try = false) {
    api::QuotaBatch batch;
    batch.pass = api::Pass::apply;
    batch.arrival = {.ns = 5, .number = 100};
    batch.visit = {.number = 7, .home = 1, .places = {place}, .subject_bits = {6}};
    batch.calls.push_back({.op = api::QuotaOp::reserve, .subjects_count = 3});
    SpreadCall part{.state = state, .is_try = is_try};
    part.shards = {api::stop_of_node(1), 4, 6};
    part.waiters.fill(api::no_waiter);
    part.waiters[0] = 30;
    part.waiters[1] = 41;
    part.waiters[2] = 62;
    batch.spread.push_back(part);
    return batch;
  }
  bool finds(const api::QuotaBatch& batch) {
    part_ = {};
    part_.waiters[0] = 33;
    return waiters_.find(batch, 0, part_, now_);
  }
  void pass(int64_t ms) { now_.monotonic_ns += ms * base::ns_per_ms; }

  base::Now now_{.monotonic_ns = base::ns_per_s, .wall_ns = 0};
  std::deque<api::QuotaCall> outgoing_;
  VisitedWaiters waiters_{outgoing_, timeout_ms};
  SpreadCall part_;
};

TEST_F(VisitedWaitersTest, a_try_finds_the_shards_and_their_waiters) {
  waiters_.note_verdicts(verdict(State::queued), now_);
  ASSERT_TRUE(finds(verdict(State::undecided)));
  EXPECT_EQ(part_.shards[1], 4);
  EXPECT_EQ(part_.shards[2], 6);
  EXPECT_EQ(part_.waiters[0], 33U);  // as the home says
  EXPECT_EQ(part_.waiters[1], 41U);
  EXPECT_EQ(part_.waiters[2], 62U);
  EXPECT_EQ(part_.waiters[3], api::no_waiter);
}

TEST_F(VisitedWaitersTest, each_call_of_a_batch_has_its_own) {
  waiters_.note_verdicts(verdict(State::queued, 3), now_);
  EXPECT_FALSE(finds(verdict(State::undecided, 0)));
  api::QuotaBatch tried = verdict(State::undecided);
  tried.arrival.number = 103;  // a try has one call
  EXPECT_TRUE(finds(tried));
}

TEST_F(VisitedWaitersTest, only_calls_that_wait_and_have_places_are_kept) {
  waiters_.note_verdicts(verdict(State::refused), now_);
  waiters_.note_verdicts(verdict(State::admitted), now_);
  api::QuotaBatch without = verdict(State::queued);
  std::fill(without.spread[0].waiters.begin() + 1, without.spread[0].waiters.end(), api::no_waiter);
  waiters_.note_verdicts(without, now_);
  EXPECT_TRUE(waiters_.is_empty());
}

TEST_F(VisitedWaitersTest, one_that_a_try_has_admitted_has_left_its_queues) {
  waiters_.note_verdicts(verdict(State::queued), now_);
  waiters_.note_verdicts(verdict(State::queued, 0, true), now_);
  EXPECT_FALSE(waiters_.is_empty());
  api::QuotaBatch admitted = verdict(State::admitted, 0, true);
  admitted.visit.is_known = true;
  waiters_.note_verdicts(admitted, now_);
  EXPECT_TRUE(waiters_.is_empty());
  EXPECT_TRUE(outgoing_.empty());
}

TEST_F(VisitedWaitersTest, one_that_is_charged_without_a_verdict_leaves_the_shards_that_held_none) {
  waiters_.note_verdicts(verdict(State::queued), now_);
  waiters_.note_verdicts(verdict(State::admitted, 0, true), now_);
  EXPECT_TRUE(waiters_.is_empty());
  ASSERT_EQ(outgoing_.size(), 2U);
  EXPECT_EQ(outgoing_[0].op, api::QuotaOp::leave_queues);
  EXPECT_EQ(outgoing_[1].shard, 6);
}

TEST_F(VisitedWaitersTest, one_that_has_left_at_its_home_leaves_every_shard) {
  waiters_.note_verdicts(verdict(State::queued), now_);
  waiters_.leave({.ns = 4, .number = 100});  // of an earlier start of its home
  EXPECT_TRUE(outgoing_.empty());
  waiters_.leave({.ns = 5, .number = 100});
  waiters_.leave({.ns = 5, .number = 100});  // it is said until it is confirmed
  EXPECT_TRUE(waiters_.is_empty());
  ASSERT_EQ(outgoing_.size(), 2U);
  EXPECT_EQ(outgoing_[0].op, api::QuotaOp::leave_queues);
  EXPECT_EQ(outgoing_[0].shard, 4);
  EXPECT_EQ(outgoing_[0].waiter, 41U);
  EXPECT_EQ(outgoing_[0].cursor, 100U);
  EXPECT_EQ(outgoing_[0].arrival_ns, 5);
  EXPECT_EQ(outgoing_[1].shard, 6);
}

TEST_F(VisitedWaitersTest, what_its_home_does_not_ask_about_leaves) {
  waiters_.note_verdicts(verdict(State::queued), now_);
  pass(waiter_kept_timeouts * timeout_ms - 1);
  ASSERT_TRUE(finds(verdict(State::undecided)));
  pass(waiter_kept_timeouts * timeout_ms - 1);
  waiters_.leave_overdue(now_);
  EXPECT_FALSE(waiters_.is_empty());
  pass(1);
  waiters_.leave_overdue(now_);
  EXPECT_TRUE(waiters_.is_empty());
  EXPECT_EQ(outgoing_.size(), 2U);
}

TEST_F(VisitedWaitersTest, a_home_that_has_started_again_gives_the_number_to_another_call) {
  waiters_.note_verdicts(verdict(State::queued), now_);
  api::QuotaBatch later = verdict(State::queued);
  later.arrival.ns = 9;
  EXPECT_FALSE(finds(later));
  waiters_.note_verdicts(later, now_);
  EXPECT_EQ(outgoing_.size(), 2U);
  EXPECT_TRUE(finds(later));
  EXPECT_FALSE(finds(verdict(State::undecided)));
}

}  // namespace
}  // namespace sluice::server
