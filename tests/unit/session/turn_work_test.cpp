// A turn does a bounded amount of work.
#include "session/turn_work.hpp"

#include <gtest/gtest.h>

namespace sluice::session {
namespace {

TEST(TurnWork, is_over_when_the_work_is_spent) {
  TurnWork work(1'000);
  work.begin_turn(true);
  work.spend(999);
  EXPECT_FALSE(work.is_over());
  work.spend(1);
  EXPECT_TRUE(work.is_over());
  work.begin_turn(true);
  EXPECT_FALSE(work.is_over());
}

TEST(TurnWork, is_over_after_a_quarter_behind_a_quiet_turn) {
  TurnWork work(1'000);
  work.begin_turn(false);
  work.spend(249);
  EXPECT_FALSE(work.is_over());
  EXPECT_TRUE(work.may_serve_at_once());
  work.spend(1);
  EXPECT_TRUE(work.is_over());
  EXPECT_FALSE(work.may_serve_at_once());
}

// How much is served in a turn without a backlog.
uint64_t work_of_turn(TurnWork& work) {
  work.begin_turn(false);
  uint64_t spent = 0;
  for (; !work.is_over(); ++spent) work.spend(1);
  return spent;
}

TEST(TurnWork, may_be_twice_what_the_last_turn_was) {
  TurnWork work(1'000);
  EXPECT_EQ(work_of_turn(work), 250u);
  EXPECT_EQ(work_of_turn(work), 500u);
  EXPECT_EQ(work_of_turn(work), 1'000u);
  EXPECT_EQ(work_of_turn(work), 1'000u);
  work.begin_turn(false);
  work.spend(150);
  EXPECT_EQ(work_of_turn(work), 300u);
  work.begin_turn(false);
  EXPECT_EQ(work_of_turn(work), 250u);
}

TEST(TurnWork, serves_nobody_at_once_while_others_wait) {
  TurnWork work(1'000);
  work.begin_turn(true);
  EXPECT_FALSE(work.may_serve_at_once());
  EXPECT_FALSE(work.is_over());
}

TEST(TurnWork, counts_the_calls_limits_and_rows_of_a_batch) {
  api::QuotaBatch batch;
  EXPECT_EQ(work::of(batch), 0u);
  batch.calls.resize(2);
  batch.limits_checked = 5;
  batch.rows.resize(3);
  batch.limits.resize(4);
  EXPECT_EQ(work::of(batch), 2 * work::quota_call + 5 * work::limit + 7 * work::row);
  batch.calls_repeated = 30;
  EXPECT_EQ(work::of(batch), 32 * work::quota_call + 5 * work::limit + 7 * work::row);
}

}  // namespace
}  // namespace sluice::session
