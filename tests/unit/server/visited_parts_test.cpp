// Goal: a verdict finds what shards hold for it, and what gets none in time is charged.
// Method: the test plays the shards: it sets what they hold and who awaits whom.
#include "server/visited_parts.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "io/socket_options.hpp"

namespace sluice::server {
namespace {

using api::Pass;
using api::SpreadCall;
using State = SpreadCall::State;

constexpr int64_t verdict_ms = 500;

class VisitedPartsTest : public ::testing::Test {
 protected:
  // A share of the round with that number: of the calls at these places in their batch.
  QuotaTask& visit(Pass pass, const std::vector<uint32_t>& places, uint64_t number = 7) {
    QuotaTask& task = pool_.take();
    task.batch.pass = pass;
    task.batch.visit.number = number;
    task.batch.visit.sender = 3;
    task.batch.visit.places = places;
    task.batch.visit.subject_bits.assign(places.size(), 1);
    for (const uint32_t place : places) {
      task.batch.calls.push_back({.op = api::QuotaOp::reserve, .subjects_count = 1});
      task.batch.calls.back().first_subject = static_cast<uint32_t>(task.batch.subjects.size());
      task.batch.subjects.emplace_back("subject");
      SpreadCall& part = task.batch.spread.emplace_back();
      part.holds.fill(SpreadCall::no_hold);
      part.reservation = 100 + place;
    }
    task.batch.answers.resize(places.size());
    return task;
  }
  // Shards hold this call's part.
  static void hold(QuotaTask& task, size_t call, uint32_t number) {
    task.batch.spread[call].holds[0] = number;
    task.batch.spread[call].fit_bits = 1;
  }
  QuotaTask& ask_and_keep(const std::vector<uint32_t>& places, uint64_t number = 7) {
    QuotaTask& task = visit(Pass::ask, places, number);
    EXPECT_TRUE(parts_.begin(task));
    for (size_t call = 0; call < places.size(); ++call) hold(task, call, 40 + places[call]);
    EXPECT_TRUE(parts_.keep(task, now_));
    return task;
  }
  // The first whose time is over without a verdict.
  QuotaTask* overdue_one() {
    pass(verdict_ms);
    return parts_.next_overdue(now_);
  }
  void pass(int64_t ms) { now_.monotonic_ns += ms * base::ns_per_ms; }

  base::Now now_{.monotonic_ns = base::ns_per_s, .wall_ns = 0};
  NodeTaskPool pool_;
  VisitedParts parts_{pool_, verdict_ms};
};

TEST_F(VisitedPartsTest, a_look_is_not_kept) {
  QuotaTask& task = visit(Pass::look, {0});
  EXPECT_TRUE(parts_.begin(task));
  EXPECT_FALSE(parts_.keep(task, now_));
  EXPECT_TRUE(parts_.is_idle());
}

TEST_F(VisitedPartsTest, an_ask_of_which_nothing_is_held_is_not_kept) {
  QuotaTask& task = visit(Pass::ask, {0});
  EXPECT_TRUE(parts_.begin(task));
  EXPECT_FALSE(parts_.keep(task, now_));
}

TEST_F(VisitedPartsTest, a_verdict_takes_what_is_held_of_its_calls) {
  ask_and_keep({2, 5});
  QuotaTask& verdict = visit(Pass::apply, {5});
  ASSERT_TRUE(parts_.begin(verdict));
  EXPECT_TRUE(verdict.batch.visit.is_known);
  EXPECT_EQ(verdict.batch.spread[0].holds[0], 45U);
  EXPECT_EQ(verdict.batch.spread[0].fit_bits, 1);
  QuotaTask& other = visit(Pass::apply, {2});
  ASSERT_TRUE(parts_.begin(other));
  EXPECT_EQ(other.batch.spread[0].holds[0], 42U);
  EXPECT_TRUE(parts_.is_idle());
  EXPECT_EQ(pool_.used_count(), 2U);  // the verdicts themselves
}

TEST_F(VisitedPartsTest, a_verdict_of_another_round_or_twice_finds_nothing) {
  ask_and_keep({2});
  QuotaTask& other = visit(Pass::apply, {2}, 8);
  EXPECT_FALSE(parts_.begin(other));
  EXPECT_FALSE(other.batch.visit.is_known);
  EXPECT_TRUE(parts_.begin(visit(Pass::apply, {2})));
  EXPECT_FALSE(parts_.begin(visit(Pass::apply, {2})));
}

TEST_F(VisitedPartsTest, a_verdict_leaves_what_is_held_since_an_earlier_round) {
  ask_and_keep({2}, 7);
  QuotaTask& again = visit(Pass::ask, {2}, 8);
  EXPECT_TRUE(parts_.begin(again));
  hold(again, 0, 60);
  EXPECT_TRUE(parts_.keep(again, now_));
  QuotaTask& verdict = visit(Pass::apply, {2}, 8);
  ASSERT_TRUE(parts_.begin(verdict));
  EXPECT_EQ(verdict.batch.spread[0].holds[0], 60U);
  const QuotaTask* const overdue = overdue_one();
  ASSERT_NE(overdue, nullptr);
  EXPECT_EQ(overdue->batch.spread[0].holds[0], 42U);
}

// Another shard refuses its call: this one keeps it for the answer alone.
TEST_F(VisitedPartsTest, without_a_verdict_in_time_what_only_reports_its_limits_is_not_charged) {
  for (const auto op : {api::QuotaOp::record, api::QuotaOp::consume, api::QuotaOp::reserve}) {
    QuotaTask& task = visit(Pass::ask, {2});
    task.batch.calls[0].op = op;
    EXPECT_TRUE(parts_.begin(task));
    hold(task, 0, SpreadCall::without_hold);
    EXPECT_TRUE(parts_.keep(task, now_));
    const QuotaTask* const overdue = overdue_one();
    ASSERT_NE(overdue, nullptr);
    EXPECT_EQ(overdue->batch.spread[0].state, State::refused);
  }
}

TEST_F(VisitedPartsTest, without_a_verdict_in_time_a_record_whose_subjects_are_kept_is_charged) {
  QuotaTask& task = visit(Pass::ask, {2});
  task.batch.calls[0].op = api::QuotaOp::record;
  EXPECT_TRUE(parts_.begin(task));
  hold(task, 0, SpreadCall::without_hold);
  task.batch.spread[0].kept_bits = 1;
  EXPECT_TRUE(parts_.keep(task, now_));
  const QuotaTask* const overdue = overdue_one();
  ASSERT_NE(overdue, nullptr);
  EXPECT_EQ(overdue->batch.spread[0].state, State::admitted);
}

TEST_F(VisitedPartsTest, a_verdict_on_more_than_is_held_says_so) {
  ask_and_keep({2});
  QuotaTask& verdict = visit(Pass::apply, {2, 3});
  EXPECT_TRUE(parts_.begin(verdict));
  EXPECT_FALSE(verdict.batch.visit.is_known);
}

TEST_F(VisitedPartsTest, without_a_verdict_in_time_what_is_held_is_charged) {
  ask_and_keep({2});
  pass(verdict_ms - 1);
  EXPECT_EQ(parts_.next_overdue(now_), nullptr);
  pass(1);
  QuotaTask* const overdue = parts_.next_overdue(now_);
  ASSERT_NE(overdue, nullptr);
  EXPECT_EQ(overdue->batch.pass, Pass::apply);
  EXPECT_EQ(overdue->batch.spread[0].state, State::admitted);
  EXPECT_EQ(overdue->batch.spread[0].holds[0], 42U);
  EXPECT_TRUE(api::admits(overdue->batch.answers[0].code));
  EXPECT_FALSE(overdue->asker.has_value());
  EXPECT_EQ(parts_.next_overdue(now_), nullptr);
  EXPECT_FALSE(parts_.begin(visit(Pass::apply, {2})));
}

TEST_F(VisitedPartsTest, a_call_that_waits_for_a_verdict_is_remembered_until_it_is_asked_again) {
  QuotaTask& task = visit(Pass::ask, {2});
  EXPECT_TRUE(parts_.begin(task));
  task.batch.spread[0].awaits_others = true;
  task.batch.spread[0].awaits_at = 1;
  EXPECT_TRUE(parts_.keep(task, now_));
  QuotaTask& waits = visit(Pass::await, {2});
  waits.batch.spread[0].shards = {0};
  EXPECT_TRUE(parts_.begin(waits));
  EXPECT_EQ(waits.batch.spread[0].awaits_at, 1);
  EXPECT_FALSE(parts_.keep(waits, now_));
  QuotaTask& again = visit(Pass::ask, {2});
  EXPECT_TRUE(parts_.begin(again));
  EXPECT_TRUE(parts_.is_idle());
}

TEST_F(VisitedPartsTest, where_a_call_awaits_a_verdict_is_known_after_its_own) {
  QuotaTask& task = visit(Pass::ask, {2});
  EXPECT_TRUE(parts_.begin(task));
  hold(task, 0, 42);
  task.batch.spread[0].awaits_others = true;
  task.batch.spread[0].awaits_at = 2;
  EXPECT_TRUE(parts_.keep(task, now_));
  QuotaTask& undecided = visit(Pass::apply, {2});
  undecided.batch.spread[0].awaits_others = true;
  EXPECT_TRUE(parts_.begin(undecided));
  EXPECT_TRUE(parts_.keep(undecided, now_));
  QuotaTask& waits = visit(Pass::await, {2});
  waits.batch.spread[0].shards = {0};
  EXPECT_TRUE(parts_.begin(waits));
  EXPECT_EQ(waits.batch.spread[0].awaits_at, 2);
}

TEST_F(VisitedPartsTest, only_calls_that_no_later_round_has_here_are_forgotten) {
  ask_and_keep({2, 5});
  QuotaTask& again = visit(Pass::ask, {5}, 8);
  EXPECT_TRUE(parts_.begin(again));
  again.batch.spread[0].awaits_others = true;
  EXPECT_TRUE(parts_.keep(again, now_));
  QuotaTask* const overdue = overdue_one();
  ASSERT_NE(overdue, nullptr);
  overdue->batch.undecided = {0, 1};
  parts_.leave_forgotten(overdue->batch);
  EXPECT_EQ(overdue->batch.undecided, std::vector<uint32_t>{0});
  EXPECT_EQ(overdue->batch.round().size(), 1U);
}

// No shard is asked: the claim that the earlier round has left there is to be forgotten.
TEST_F(VisitedPartsTest, a_round_behind_its_cancel_leaves_what_the_earlier_one_awaits) {
  QuotaTask& task = visit(Pass::ask, {2, 5});
  EXPECT_TRUE(parts_.begin(task));
  for (SpreadCall& part : task.batch.spread) part.awaits_others = true;
  EXPECT_TRUE(parts_.keep(task, now_));
  EXPECT_EQ(parts_.refuse(102, now_), nullptr);
  QuotaTask& again = visit(Pass::ask, {2, 5}, 8);
  EXPECT_TRUE(parts_.begin(again));
  again.batch.spread[1].awaits_others = true;
  EXPECT_TRUE(parts_.keep(again, now_));
  pass(verdict_ms);
  QuotaTask* const overdue = overdue_one();
  ASSERT_EQ(overdue, &task);
  overdue->batch.undecided = {0, 1};
  parts_.leave_forgotten(overdue->batch);
  EXPECT_EQ(overdue->batch.undecided, std::vector<uint32_t>{0});
}

TEST_F(VisitedPartsTest, the_end_of_a_reservation_refuses_what_is_still_held_of_it) {
  ask_and_keep({2, 5});
  EXPECT_EQ(parts_.refuse(104, now_), nullptr);
  QuotaTask* const refused = parts_.refuse(105, now_);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->batch.pass, Pass::apply);
  EXPECT_EQ(refused->batch.calls.size(), 1U);
  EXPECT_EQ(refused->batch.round().size(), 1U);
  EXPECT_EQ(refused->batch.spread[0].state, State::refused);
  EXPECT_EQ(refused->batch.spread[0].holds[0], 45U);
  EXPECT_EQ(parts_.refuse(105, now_), nullptr);
  const QuotaTask* const overdue = overdue_one();
  ASSERT_NE(overdue, nullptr);
  EXPECT_EQ(overdue->batch.spread[0].state, State::admitted);
  EXPECT_EQ(overdue->batch.spread[1].state, State::done);
}

TEST_F(VisitedPartsTest, nothing_is_held_behind_the_cancel_of_its_reservation) {
  EXPECT_EQ(parts_.refuse(102, now_), nullptr);
  QuotaTask& task = visit(Pass::ask, {2, 5});
  EXPECT_TRUE(parts_.begin(task));
  EXPECT_EQ(task.batch.spread[0].state, State::done);
  EXPECT_EQ(task.batch.spread[1].state, State::undecided);
}

TEST_F(VisitedPartsTest, what_was_cancelled_on_its_way_from_shard_to_shard_is_not_charged) {
  QuotaTask& task = visit(Pass::ask, {2, 5});
  EXPECT_TRUE(parts_.begin(task));
  EXPECT_EQ(parts_.refuse(102, now_), nullptr);
  hold(task, 0, 42);
  hold(task, 1, 45);
  EXPECT_TRUE(parts_.keep(task, now_));
  const QuotaTask* const overdue = overdue_one();
  ASSERT_NE(overdue, nullptr);
  EXPECT_EQ(overdue->batch.spread[0].state, State::refused);
  EXPECT_EQ(overdue->batch.spread[1].state, State::admitted);
}

TEST_F(VisitedPartsTest, a_verdict_behind_the_cancel_admits_nothing) {
  ask_and_keep({2});
  ASSERT_NE(parts_.refuse(102, now_), nullptr);
  ask_and_keep({2}, 8);
  QuotaTask& verdict = visit(Pass::apply, {2}, 8);
  verdict.batch.spread[0].state = State::admitted;
  EXPECT_TRUE(parts_.begin(verdict));
  EXPECT_EQ(verdict.batch.spread[0].state, State::refused);
}

TEST_F(VisitedPartsTest, cancels_are_remembered_while_an_ask_may_be_under_way) {
  const auto is_left_out = [&] {
    QuotaTask& task = visit(Pass::ask, {2});
    EXPECT_TRUE(parts_.begin(task));
    return task.batch.spread[0].state == State::done;
  };
  parts_.refuse(102, now_);
  pass(2 * verdict_ms + io::unacknowledged_ms_max - 1);
  parts_.refuse(7, now_);
  EXPECT_TRUE(is_left_out());
  pass(1);
  parts_.refuse(8, now_);
  EXPECT_FALSE(is_left_out());
}

TEST_F(VisitedPartsTest, of_many_cancels_the_oldest_is_forgotten_first) {
  for (size_t i = 0; i <= VisitedParts::cancelled_max; ++i) parts_.refuse(100 + i, now_);
  QuotaTask& task = visit(Pass::ask, {0, 1});
  EXPECT_TRUE(parts_.begin(task));
  EXPECT_EQ(task.batch.spread[0].state, State::undecided);
  EXPECT_EQ(task.batch.spread[1].state, State::done);
}

TEST_F(VisitedPartsTest, a_repeat_without_a_reservation_is_not_charged) {
  QuotaTask& task = visit(Pass::ask, {2});
  task.batch.spread[0].reservation = 0;
  EXPECT_TRUE(parts_.begin(task));
  hold(task, 0, 42);
  EXPECT_TRUE(parts_.keep(task, now_));
  const QuotaTask* const overdue = overdue_one();
  ASSERT_NE(overdue, nullptr);
  EXPECT_EQ(overdue->batch.spread[0].state, State::refused);
}

}  // namespace
}  // namespace sluice::server
