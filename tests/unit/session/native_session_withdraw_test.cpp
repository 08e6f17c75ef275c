// Goal: on one of several nodes a Withdraw waits for the verdicts of its target alone, and the
//       frames behind it do not wait at all.
// Method: a session over a backend that only records calls, which the test answers in any order.
#include <vector>

#include "tests/unit/session/native_quota_fixture.hpp"

namespace sluice::session {
namespace {

using api::QuotaCode;

class NativeSessionWithdrawTest : public NativeQuotaFixture {
 protected:
  NativeSessionWithdrawTest() : NativeQuotaFixture(1'000, route::Ownership(3, 0)) {}

  void send_withdraw(uint64_t id, uint64_t target, const std::vector<uint32_t>& entries = {}) {
    send(id, [&](ClientFrame frame) {
      auto withdraw = frame.initWithdraw();
      withdraw.setTarget(target);
      auto list = withdraw.initEntries(static_cast<uint32_t>(entries.size()));
      for (uint32_t i = 0; i < entries.size(); ++i) list.set(i, entries[i]);
    });
  }
  void send_ping(uint64_t id) {
    send(id, [](ClientFrame frame) { frame.setPing(); });
  }
};

TEST_F(NativeSessionWithdrawTest, waits_for_no_frame_but_its_target) {
  send_reserve(7, wire::quota_bit::may_wait);
  answer_with({QuotaCode::queued, QuotaCode::queued});
  send_reserve(8);  // of an owner that does not answer
  answers_.clear();
  send_withdraw(9, 7);
  EXPECT_EQ(backend_.withdrawn.size(), 2U);
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_TRUE(answered_frame(0).isDone());
}

TEST_F(NativeSessionWithdrawTest, holds_no_frame_behind_it) {
  send_reserve(7, wire::quota_bit::may_wait);
  send_withdraw(8, 7);
  send_ping(9);
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_TRUE(answered_frame(0).isPong());
  answer_with({QuotaCode::queued, QuotaCode::queued});
  EXPECT_EQ(backend_.withdrawn.size(), 2U);
  ASSERT_EQ(answers_.size(), 3U);
  EXPECT_EQ(answered_frame(2).getId(), 8U);
  EXPECT_TRUE(answered_frame(2).isDone());
}

TEST_F(NativeSessionWithdrawTest, withdraws_the_entries_that_it_names_when_they_wait) {
  send_reserve(7, wire::quota_bit::may_wait);
  const api::Ticket second = asked().calls[1].ticket;
  send_withdraw(8, 7, {1});
  answer_with({QuotaCode::queued, QuotaCode::queued});
  EXPECT_EQ(backend_.withdrawn, std::vector<api::Ticket>{second});
}

TEST_F(NativeSessionWithdrawTest, is_done_when_its_target_does_not_wait) {
  send_reserve(7, wire::quota_bit::may_wait);
  send_withdraw(8, 7);
  answer_with({QuotaCode::ok, QuotaCode::rpm_exceeded});
  EXPECT_TRUE(backend_.withdrawn.empty());
  ASSERT_EQ(answers_.size(), 2U);
  EXPECT_TRUE(answered_frame(1).isDone());
}

TEST_F(NativeSessionWithdrawTest, its_id_is_in_use_until_it_is_done) {
  send_reserve(7, wire::quota_bit::may_wait);
  send_withdraw(8, 7);
  send_settle(8, 1);
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(error_code(0), schema::ErrorCode::ID_IN_USE);
}

TEST_F(NativeSessionWithdrawTest, holds_the_session_when_too_many_wait_for_their_targets) {
  send_reserve(7, wire::quota_bit::may_wait);
  uint64_t id = 8;
  for (size_t i = 0; i < PendingWithdrawals::withdrawals_max; ++i) send_withdraw(id++, 7);
  send_ping(id++);
  EXPECT_EQ(answers_.size(), 1U) << "as many as may wait hold nothing";
  answers_.clear();
  send_withdraw(id++, 7);
  send_ping(id++);
  EXPECT_TRUE(answers_.empty());
  answer_with({QuotaCode::ok, QuotaCode::ok});
  EXPECT_EQ(answers_.size(), 1 + PendingWithdrawals::withdrawals_max + 2);
}

TEST_F(NativeSessionWithdrawTest, holds_the_session_when_it_names_too_many_entries) {
  send_reserve(7, wire::quota_bit::may_wait);
  send_withdraw(8, 7, std::vector<uint32_t>(PendingWithdrawals::entries_max + 1, 1));
  send_ping(9);
  EXPECT_TRUE(answers_.empty());
  answer_with({QuotaCode::queued, QuotaCode::queued});
  EXPECT_EQ(backend_.withdrawn.size(), 1U);
  EXPECT_EQ(answers_.size(), 3U);
}

}  // namespace
}  // namespace sluice::session
