// When a multishot receive is armed again. Drives the state machine by hand, as the kernel would.
#include "io/receive_arming.hpp"

#include <gtest/gtest.h>

namespace sluice::io {
namespace {

ReceiveArming armed() {
  ReceiveArming arming;
  EXPECT_EQ(arming.start(), ReceiveAction::arm);
  return arming;
}

TEST(ReceiveArming, arms_once) {
  ReceiveArming arming = armed();
  EXPECT_EQ(arming.start(), ReceiveAction::none);
  EXPECT_TRUE(arming.in_flight());
}

TEST(ReceiveArming, stays_armed_while_more_is_promised) {
  ReceiveArming arming = armed();
  EXPECT_EQ(arming.complete(100, true), ReceiveAction::none);
  EXPECT_TRUE(arming.in_flight());
}

// The kernel may end a multishot with bytes in hand, without any other sign.
TEST(ReceiveArming, arms_again_when_it_ends_on_success) {
  ReceiveArming arming = armed();
  EXPECT_EQ(arming.complete(100, false), ReceiveAction::arm);
}

TEST(ReceiveArming, arms_again_after_passing_errors) {
  for (const int error : {ECANCELED, EINTR, EAGAIN}) {
    ReceiveArming arming = armed();
    EXPECT_EQ(arming.complete(-error, false), ReceiveAction::arm) << error;
  }
}

TEST(ReceiveArming, waits_for_buffers_before_it_arms_again) {
  ReceiveArming arming = armed();
  EXPECT_EQ(arming.complete(-ENOBUFS, false), ReceiveAction::wait_for_buffers);
  EXPECT_EQ(arming.start(), ReceiveAction::none);
  EXPECT_EQ(arming.buffers_returned(), ReceiveAction::arm);
}

TEST(ReceiveArming, stopped_while_starved_is_not_armed) {
  ReceiveArming arming = armed();
  EXPECT_EQ(arming.complete(-ENOBUFS, false), ReceiveAction::wait_for_buffers);
  EXPECT_EQ(arming.stop(), ReceiveAction::none);
  EXPECT_EQ(arming.buffers_returned(), ReceiveAction::none);
  EXPECT_EQ(arming.start(), ReceiveAction::arm);
}

TEST(ReceiveArming, ends_with_the_stream_and_with_failures) {
  for (const int result : {0, -ECONNRESET, -ETIMEDOUT}) {
    ReceiveArming arming = armed();
    EXPECT_EQ(arming.complete(result, false), ReceiveAction::none);
    EXPECT_TRUE(arming.ended());
    EXPECT_EQ(arming.start(), ReceiveAction::none);
  }
}

TEST(ReceiveArming, stop_cancels_once) {
  ReceiveArming arming = armed();
  EXPECT_EQ(arming.stop(), ReceiveAction::cancel);
  EXPECT_EQ(arming.stop(), ReceiveAction::none);
  EXPECT_EQ(arming.complete(-ECANCELED, false), ReceiveAction::none);
  EXPECT_FALSE(arming.in_flight());
}

// The cancel is on its way when reading is wanted again: its completion arms anew, whatever its
// result.
TEST(ReceiveArming, start_during_a_cancel_arms_when_it_has_ended) {
  for (const int result : {-ECANCELED, 100}) {
    ReceiveArming arming = armed();
    EXPECT_EQ(arming.stop(), ReceiveAction::cancel);
    EXPECT_EQ(arming.start(), ReceiveAction::none);
    EXPECT_EQ(arming.complete(result, false), ReceiveAction::arm);
    EXPECT_EQ(arming.stop(), ReceiveAction::cancel) << "a second cancel for the second receive";
  }
}

TEST(ReceiveArming, nothing_is_armed_after_close) {
  ReceiveArming arming = armed();
  EXPECT_EQ(arming.close(), ReceiveAction::cancel);
  EXPECT_EQ(arming.start(), ReceiveAction::none);
  EXPECT_EQ(arming.complete(100, true), ReceiveAction::none);
  EXPECT_EQ(arming.complete(-ECANCELED, false), ReceiveAction::none);
  EXPECT_FALSE(arming.in_flight());
}

}  // namespace
}  // namespace sluice::io
