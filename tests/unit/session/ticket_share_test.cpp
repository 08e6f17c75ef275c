// Goal: one connection holds at most as many places for waiters as it leaves free, however it asks
//       for them, and may always have one.
// Method: connections take as many tickets as they may, all in one frame or one after the other.
#include "session/ticket_share.hpp"

#include <gtest/gtest.h>

namespace sluice::session {
namespace {

constexpr auto permits = WaitsFor::permits;
constexpr auto quota = WaitsFor::quota;

// As many as it may have; all of them wait in the end.
uint32_t fill(TicketShare& share, uint64_t& waiting, uint32_t places, bool in_one_frame) {
  uint32_t count = 0;
  for (; share.may_take(permits, waiting, places); ++count) {
    share.taken(permits);
    if (in_one_frame) continue;
    share.joined(permits);
    ++waiting;
  }
  for (uint32_t index = 0; in_one_frame && index < count; ++index, ++waiting) {
    share.joined(permits);
  }
  return count;
}

TEST(TicketShare, is_as_much_as_it_leaves_free) {
  for (const bool in_one_frame : {true, false}) {
    SCOPED_TRACE(in_one_frame);
    uint64_t waiting = 0;
    TicketShare first, second, third;
    EXPECT_EQ(fill(first, waiting, 100, in_one_frame), 50U);
    EXPECT_EQ(fill(second, waiting, 100, in_one_frame), 25U);
    EXPECT_EQ(fill(third, waiting, 100, in_one_frame), 13U);
  }
}

TEST(TicketShare, is_one_ticket_at_least) {
  uint64_t waiting = 1'000;
  TicketShare share;
  EXPECT_EQ(fill(share, waiting, 100, false), 1U);
}

TEST(TicketShare, grows_again_when_entries_end) {
  uint64_t waiting = 0;
  TicketShare share;
  fill(share, waiting, 4, false);
  EXPECT_FALSE(share.may_take(permits, waiting, 4));
  share.dropped(permits);
  EXPECT_TRUE(share.may_take(permits, waiting - 1, 4));
  share.taken(permits);
  EXPECT_FALSE(share.may_take(permits, waiting - 1, 4));
  share.dropped_undecided(permits);
  EXPECT_TRUE(share.may_take(permits, waiting - 1, 4));
}

TEST(TicketShare, counts_waiters_of_keys_and_of_quotas_apart) {
  uint64_t waiting = 0;
  TicketShare share;
  EXPECT_EQ(fill(share, waiting, 100, false), 50U);
  EXPECT_TRUE(share.may_take(quota, 0, 100));
  for (int count = 0; count < 50; ++count) share.taken(quota);
  EXPECT_FALSE(share.may_take(quota, 0, 100));
}

TEST(TicketShare, is_bounded_for_both_together) {
  constexpr uint32_t half = limits::connection_waiters_max / 2;
  TicketShare share;
  for (uint32_t count = 0; count < half; ++count) share.taken(permits);
  for (uint32_t count = 0; count + 1 < half; ++count) share.taken(quota);
  EXPECT_TRUE(share.may_take(quota, 0, 1'000'000));
  share.taken(quota);
  EXPECT_FALSE(share.may_take(quota, 0, 1'000'000));
}

TEST(TicketShare, asserts_on_what_it_does_not_hold) {
  TicketShare share;
  EXPECT_DEATH(share.dropped(permits), "count > 0");
  EXPECT_DEATH(share.joined(quota), "count > 0");
}

}  // namespace
}  // namespace sluice::session
