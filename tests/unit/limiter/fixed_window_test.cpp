// The arithmetic of one window: anchoring, rolling, taking and releasing, at their edges.
#include "limiter/fixed_window.hpp"

#include <gtest/gtest.h>

namespace sluice::limiter {
namespace {

constexpr uint32_t limit = 10;

TEST(FixedWindow, never_ends_before_a_whole_window_has_passed) {
  EXPECT_EQ(FixedWindow::starting_at(5'000'000, 100).end_ms, 105);
  EXPECT_EQ(FixedWindow::starting_at(5'000'001, 100).end_ms, 106);
  EXPECT_EQ(FixedWindow::starting_at(5'999'999, 100).end_ms, 106);
}

TEST(FixedWindow, is_over_at_its_end) {
  const FixedWindow window{.end_ms = 100};
  EXPECT_FALSE(window.over(99));
  EXPECT_TRUE(window.over(100));
}

TEST(FixedWindow, rolling_changes_nothing_before_the_end) {
  FixedWindow window{.end_ms = 100, .approved = 3, .denied = 4};
  const FixedWindow before = window;
  window.roll(99, 100);
  EXPECT_EQ(window, before);
}

TEST(FixedWindow, rolls_in_phase_over_any_number_of_windows) {
  for (const int64_t now_ms : {100, 101, 199, 200, 201, 299, 300, 12'345, 12'400}) {
    FixedWindow window{.end_ms = 100, .approved = 3, .denied = 4};
    window.roll(now_ms, 100);
    EXPECT_GT(window.end_ms, now_ms);
    EXPECT_LE(window.end_ms, now_ms + 100);
    EXPECT_EQ(window.end_ms % 100, 0);
    EXPECT_EQ(window.approved, 0U);
    EXPECT_EQ(window.denied, 0U);
  }
}

TEST(FixedWindow, a_restart_keeps_what_was_counted) {
  FixedWindow window{.end_ms = 100, .approved = 3, .denied = 4};
  window.restart(50'000'001, 200);
  EXPECT_EQ(window, (FixedWindow{.end_ms = 251, .approved = 3, .denied = 4}));
}

TEST(FixedWindow, an_end_is_only_brought_forward) {
  FixedWindow window{.end_ms = 100};
  window.end_by(101);
  EXPECT_EQ(window.end_ms, 100);
  window.end_by(99);
  EXPECT_EQ(window.end_ms, 99);
}

TEST(FixedWindow, expires_when_idle_and_is_fresh_before) {
  const FixedWindow window{.end_ms = 100, .approved = 3};
  EXPECT_EQ(window.fresh_ms(), 100);
  EXPECT_EQ(window.expiry_ms(10), 100 + 10 * limits::idle_windows);
  EXPECT_FALSE(window.expired(window.expiry_ms(10) - 1, 10));
  EXPECT_TRUE(window.expired(window.expiry_ms(10), 10));
}

TEST(FixedWindow, takes_up_to_the_limit) {
  FixedWindow window{.end_ms = 100};
  EXPECT_TRUE(window.take(9, limit));
  EXPECT_FALSE(window.take(2, limit));
  EXPECT_TRUE(window.take(1, limit));
  EXPECT_FALSE(window.take(1, limit));
  EXPECT_EQ(window.approved, 10U);
}

TEST(FixedWindow, sums_beyond_32_bits_do_not_fit) {
  const FixedWindow window{.end_ms = 100, .approved = 1'000'000'000};
  EXPECT_FALSE(window.fits(UINT32_MAX, 1'000'000'000));
}

TEST(FixedWindow, release_stops_at_zero) {
  FixedWindow window{.end_ms = 100, .approved = 5};
  window.release(3);
  EXPECT_EQ(window.approved, 2U);
  window.release(3);
  EXPECT_EQ(window.approved, 0U);
}

TEST(FixedWindow, nothing_remains_above_a_lowered_limit) {
  const FixedWindow window{.end_ms = 100, .approved = 12};
  EXPECT_EQ(window.remaining(limit), 0U);
  EXPECT_EQ(window.remaining(20), 8U);
}

TEST(FixedWindow, expires_after_three_idle_windows) {
  const FixedWindow window{.end_ms = 100};
  EXPECT_FALSE(window.expired(399, 100));
  EXPECT_TRUE(window.expired(400, 100));
}

TEST(FixedWindow, shows_no_more_time_than_a_window) {
  const FixedWindow window = FixedWindow::starting_at(5'000'001, 100);
  EXPECT_EQ(window.reset_ms(5, 100), 100);
  EXPECT_EQ(window.reset_ms(6, 100), 100);
  EXPECT_EQ(window.reset_ms(7, 100), 99);
}

TEST(FixedWindow, denials_stop_counting_rather_than_wrap) {
  FixedWindow window{.end_ms = 100, .denied = UINT32_MAX};
  window.deny();
  EXPECT_EQ(window.denied, UINT32_MAX);
}

}  // namespace
}  // namespace sluice::limiter
