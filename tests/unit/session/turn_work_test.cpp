// A turn does a bounded amount of work.
#include "session/turn_work.hpp"

#include <gtest/gtest.h>

#include "base/time.hpp"

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

// Its answers leave, and what arrived meanwhile is seen, after some 200 us.
TEST(TurnWork, has_room_for_some_ten_thousand_decisions) {
  constexpr int64_t entry_ns_max = 30;  // in a table that exceeds the caches
  EXPECT_LE(TurnWork::turn_work_max / work::entry * entry_ns_max, 300 * base::ns_per_us);
}

TEST(TurnWork, serves_nobody_at_once_while_others_wait) {
  TurnWork work(1'000);
  work.begin_turn(true);
  EXPECT_FALSE(work.may_serve_at_once());
  EXPECT_FALSE(work.is_over());
}

TEST(TurnWork, counts_the_calls_subjects_limits_and_rows_of_a_batch) {
  api::QuotaBatch batch;
  EXPECT_EQ(work::of(batch), 0u);
  batch.calls.resize(2);
  batch.limits_checked = 5;
  batch.rows.resize(3);
  batch.limits.resize(4);
  EXPECT_EQ(work::of(batch), 2 * work::quota_call + 5 * work::limit + 7 * work::row);
  batch.calls_repeated = 30;
  EXPECT_EQ(work::of(batch), 32 * work::quota_call + 5 * work::limit + 7 * work::row);
  batch.subjects_fetched = 6;
  EXPECT_EQ(work::of(batch),
            32 * work::quota_call + 5 * work::limit + 7 * work::row + 6 * work::fetched_subject);
}

}  // namespace
}  // namespace sluice::session
