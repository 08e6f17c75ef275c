// Parcels of a lane leave in their order, and each is handed back once: answered, late, or lost.
#include "peer/lane_parcels.hpp"

#include <gtest/gtest.h>

#include <array>

namespace sluice::peer {
namespace {

using Parcels = std::vector<QuotaParcel*>;

class LaneParcelsTest : public ::testing::Test {
 protected:
  LaneParcelsTest() {
    for (size_t i = 0; i < parcels_.size(); ++i) {
      parcels_[i].deadline_ms = 100 + static_cast<int64_t>(i);
      parcels_[i].batch.calls = {{.op = api::QuotaOp::consume}};
      lane_.add(parcels_[i]);
    }
  }
  // The first one is written.
  void send(uint64_t frame_id) { lane_.note_sent(frame_id, 64); }
  LaneParcels::Answered answered(uint64_t frame_id, int64_t now_ms = 0) {
    return lane_.take_answered(frame_id, now_ms, given_up_);
  }

  std::array<QuotaParcel, 3> parcels_;
  LaneParcels lane_;
  Parcels given_up_;
};

TEST_F(LaneParcelsTest, leave_in_their_order) {
  EXPECT_EQ(lane_.next(), &parcels_[0]);
  send(7);
  EXPECT_EQ(lane_.next(), &parcels_[1]);
  send(8);
  send(9);
  EXPECT_EQ(lane_.next(), nullptr);
  EXPECT_EQ(lane_.sent_count(), 3U);
}

// What the other node keeps may wait for them.
TEST_F(LaneParcelsTest, verdicts_leave_before_them) {
  QuotaParcel verdict;
  verdict.of = QuotaParcel::Of::visit;
  verdict.batch.pass = api::Pass::apply;
  verdict.deadline_ms = 50;
  QuotaParcel ask;
  ask.of = QuotaParcel::Of::visit;
  ask.batch.pass = api::Pass::ask;
  lane_.add(ask);
  lane_.add(verdict);
  EXPECT_EQ(lane_.next(), &verdict);
  send(7);
  EXPECT_EQ(answered(7).parcel, &verdict);
  EXPECT_EQ(lane_.next(), &parcels_[0]);
  lane_.add(verdict);
  lane_.give_up(50, given_up_);
  EXPECT_EQ(given_up_, (Parcels{&verdict, &ask}));
  lane_.add(verdict);
  Parcels lost;
  lane_.lose(lost);
  EXPECT_EQ(lost, (Parcels{&verdict, &parcels_[0], &parcels_[1], &parcels_[2]}));
  EXPECT_FALSE(lane_.has_any());
}

TEST_F(LaneParcelsTest, are_answered_once) {
  send(7);
  const LaneParcels::Answered first = answered(7);
  EXPECT_TRUE(first.was_asked);
  EXPECT_EQ(first.parcel, &parcels_[0]);
  EXPECT_EQ(first.bytes, 64U);
  EXPECT_FALSE(answered(7).was_asked);
  EXPECT_FALSE(answered(8).was_asked);
}

// This node stood still, and handles what has arrived before it looks for what is overdue.
TEST_F(LaneParcelsTest, are_given_up_by_a_late_answer) {
  send(7);
  const LaneParcels::Answered late = answered(7, 100);
  EXPECT_TRUE(late.was_asked);
  EXPECT_EQ(late.parcel, nullptr);
  EXPECT_EQ(late.ops, std::vector{api::QuotaOp::consume});
  EXPECT_EQ(given_up_, Parcels{&parcels_[0]});
}

TEST_F(LaneParcelsTest, are_given_up_at_their_deadlines) {
  send(7);
  send(8);
  Parcels given_up;
  lane_.give_up(99, given_up);
  EXPECT_TRUE(given_up.empty());
  lane_.give_up(100, given_up);
  EXPECT_EQ(given_up, Parcels{&parcels_[0]});
  lane_.give_up(102, given_up);
  EXPECT_EQ(given_up, (Parcels{&parcels_[0], &parcels_[2], &parcels_[1]}));
  EXPECT_EQ(lane_.next(), nullptr);  // the last one never leaves
  EXPECT_TRUE(lane_.has_any());      // late answers may still come
  const LaneParcels::Answered late = answered(8);
  EXPECT_TRUE(late.was_asked);
  EXPECT_EQ(late.parcel, nullptr);
  EXPECT_EQ(late.ops, std::vector{api::QuotaOp::consume});
}

TEST_F(LaneParcelsTest, are_lost_with_their_lane) {
  send(7);
  Parcels given_up;
  lane_.give_up(100, given_up);
  send(8);
  Parcels lost;
  lane_.lose(lost);
  EXPECT_EQ(lost, (Parcels{&parcels_[1], &parcels_[2]}));
  EXPECT_FALSE(lane_.has_any());
  EXPECT_FALSE(answered(8).was_asked);
}

}  // namespace
}  // namespace sluice::peer
