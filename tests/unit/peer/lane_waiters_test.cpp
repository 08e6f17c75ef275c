// What waits at an owner has one outcome: the owner's, if it can be meant, or that it is lost.
#include "peer/lane_waiters.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/peer/peer_fixture.hpp"

namespace sluice::peer {
namespace {

using api::QuotaCode;
using api::Verdict;
using Of = RemoteWaiter::Of;

class LaneWaitersTest : public PeerFixture {
 protected:
  static constexpr RemotePlace place{.frame_id = 7, .entry = 2};
  static constexpr RemotePlace other_place{.frame_id = 8, .entry = 2};

  ~LaneWaitersTest() override { context_.grants.clear(); }

  RemoteWaiter& keep(const RemotePlace& at, api::Ticket ticket, Of of) {
    RemoteWaiter* const waiter = waiters_.keep(at, ticket, of);
    EXPECT_NE(waiter, nullptr);
    return *waiter;
  }
  const api::Grant& last_grant() const { return context_.grants.back(); }

  LaneWaiters waiters_{context_};
};

TEST_F(LaneWaitersTest, an_entry_has_the_verdict_of_its_owner) {
  const api::RefundClaim claim{.window_end_ms = 5};
  keep(place, 3, Of::entry);
  EXPECT_TRUE(waiters_.end_entry(place, Verdict::approved, {.remaining = 4}, claim));
  EXPECT_EQ(last_grant().ticket, 3U);
  EXPECT_EQ(last_grant().verdict, Verdict::approved);
  EXPECT_EQ(last_grant().detail.remaining, 4U);
  EXPECT_EQ(last_grant().refund_claim.window_end_ms, 5);
  EXPECT_FALSE(waiters_.has_any());
  EXPECT_EQ(context_.waiters.used(), 0U);
  EXPECT_FALSE(waiters_.end_entry(place, Verdict::approved, {}, {})) << "it has had its outcome";
}

TEST_F(LaneWaitersTest, what_no_owner_can_mean_is_unreachable) {
  for (const Verdict verdict : {Verdict::handles_full, Verdict::draining, Verdict::withdrawn}) {
    keep(place, 3, Of::entry);
    EXPECT_TRUE(waiters_.end_entry(place, verdict, {}, {}));
    EXPECT_EQ(last_grant().verdict, Verdict::owner_unreachable);
  }
  for (const QuotaCode code : {QuotaCode::draining, QuotaCode::queued, QuotaCode::withdrawn}) {
    keep(place, 3, Of::quota_call);
    EXPECT_TRUE(waiters_.end_call(place, {.code = code}, {}));
    EXPECT_EQ(last_grant().code, QuotaCode::owner_unreachable);
  }
}

TEST_F(LaneWaitersTest, one_that_was_withdrawn_may_be_said_to_be) {
  const RemoteWaiter& entry = keep(place, 3, Of::entry);
  EXPECT_EQ(waiters_.withdraw(entry.index, 4), nullptr) << "of another ticket";
  ASSERT_NE(waiters_.withdraw(entry.index, 3), nullptr);
  EXPECT_EQ(*waiters_.withdraw(entry.index, 3), place);
  EXPECT_TRUE(waiters_.end_entry(place, Verdict::withdrawn, {}, {}));
  EXPECT_EQ(last_grant().verdict, Verdict::withdrawn);
}

TEST_F(LaneWaitersTest, a_call_has_its_own_limits) {
  api::WaitAnswer answer;
  keep(place, 3, Of::quota_call).answer = &answer;
  const std::vector<api::LimitReport> limits(5, {.used = 6});
  EXPECT_TRUE(waiters_.end_call(
      place, {.code = QuotaCode::ok, .first_limit = 3, .limits_count = 2, .reservation = 11},
      limits));
  EXPECT_EQ(last_grant().verdict, Verdict::approved);
  EXPECT_EQ(last_grant().refund_claim.reservation, 11U);
  EXPECT_EQ(answer.answer.first_limit, 0U);
  ASSERT_EQ(answer.limits.size(), 2U);
  EXPECT_EQ(answer.limits[0].used, 6U);
}

TEST_F(LaneWaitersTest, an_outcome_is_of_the_place_and_the_kind) {
  keep(place, 3, Of::entry);
  EXPECT_FALSE(waiters_.end_call(place, {.code = QuotaCode::ok}, {}));
  EXPECT_FALSE(waiters_.end_entry(other_place, Verdict::approved, {}, {}));
  EXPECT_TRUE(context_.grants.empty());
  EXPECT_TRUE(waiters_.has_any());
}

TEST_F(LaneWaitersTest, those_of_a_lane_that_is_lost_have_an_outcome) {
  api::WaitAnswer answer;
  keep(place, 3, Of::entry);
  keep(other_place, 4, Of::quota_call).answer = &answer;
  waiters_.lose();
  ASSERT_EQ(context_.grants.size(), 2U);
  EXPECT_EQ(context_.grants[0].verdict, Verdict::owner_unreachable);
  EXPECT_EQ(context_.grants[1].code, QuotaCode::owner_unreachable);
  EXPECT_EQ(answer.answer.code, QuotaCode::owner_unreachable);
  EXPECT_EQ(context_.waiters.used(), 0U);
}

TEST_F(LaneWaitersTest, keeps_none_that_was_not_asked_to_wait_and_no_more_than_there_is_room_for) {
  EXPECT_EQ(waiters_.keep(place, api::no_ticket, Of::entry), nullptr);
  for (uint32_t entry = 0; entry < waiters_max; ++entry) {
    keep({.frame_id = 1, .entry = entry}, entry, Of::entry);
  }
  EXPECT_EQ(waiters_.keep(place, 9, Of::entry), nullptr);
}

TEST_F(LaneWaitersTest, frees_those_that_wait_at_the_end) {
  {
    LaneWaiters ending(context_);
    ending.keep(place, 3, Of::entry);
    EXPECT_EQ(context_.waiters.used(), 1U);
  }
  EXPECT_EQ(context_.waiters.used(), 0U);
  EXPECT_TRUE(context_.grants.empty());
}

}  // namespace
}  // namespace sluice::peer
