// Goal: a connection of HTTP/2 ends, and its streams are checked, exactly when they are due.
#include "session/http2_times.hpp"

#include <gtest/gtest.h>

namespace sluice::session {
namespace {

constexpr int64_t start_ms = 1'000'000;

class Http2TimesTest : public ::testing::Test {
 protected:
  // Its one due time is then.
  void expect_end(int64_t end_ms) {
    EXPECT_EQ(times_.deadline_ms(), end_ms);
    EXPECT_FALSE(times_.is_over(end_ms - 1));
    EXPECT_TRUE(times_.is_over(end_ms));
  }

  Options options_{.header_timeout_ms = 5'000, .idle_timeout_ms = 0, .drain_grace_ms = 700};
  Http2Times times_{options_, start_ms};
};

TEST_F(Http2TimesTest, awaits_the_first_bytes) {
  expect_end(start_ms + options_.header_timeout_ms);
}

TEST_F(Http2TimesTest, counts_from_the_first_part_of_a_head) {
  times_.note_whole();
  times_.end_idle();
  times_.note_partial(start_ms + 10);
  times_.note_partial(start_ms + 20);
  expect_end(start_ms + 10 + options_.header_timeout_ms);
  times_.note_whole();
  EXPECT_EQ(times_.deadline_ms(), base::never_ms);
}

TEST_F(Http2TimesTest, awaits_nothing_of_the_peer_while_the_session_is_held) {
  times_.note_stream(start_ms);
  times_.note_hold(true, start_ms);
  EXPECT_EQ(times_.deadline_ms(), base::never_ms);
  EXPECT_FALSE(times_.is_over(base::never_ms - 1));
  EXPECT_FALSE(times_.take_due_streams(base::never_ms - 1));
  times_.expect_last_goaway(start_ms);
  EXPECT_EQ(times_.deadline_ms(), start_ms + options_.drain_grace_ms);
}

TEST_F(Http2TimesTest, gives_the_peer_as_much_time_as_the_session_was_held) {
  const int64_t held_ms = 2 * options_.header_timeout_ms;
  times_.note_stream(start_ms + 1);
  times_.note_hold(true, start_ms);
  times_.note_hold(true, start_ms + held_ms - 1);
  times_.note_hold(false, start_ms + held_ms);
  times_.note_hold(false, start_ms + held_ms + 1);
  times_.note_hold(true, start_ms + held_ms + 1);
  times_.note_hold(false, start_ms + held_ms + 2);
  expect_end(start_ms + 2 * held_ms);
  EXPECT_FALSE(times_.take_due_streams(start_ms + 2 * held_ms - 1));
  EXPECT_TRUE(times_.take_due_streams(start_ms + 2 * held_ms));
}

TEST_F(Http2TimesTest, is_not_longer_by_a_hold_that_ended_before) {
  times_.note_hold(true, start_ms);
  times_.note_hold(false, start_ms + 10);
  expect_end(start_ms + options_.header_timeout_ms);
}

TEST_F(Http2TimesTest, ends_without_a_stream_after_the_shorter_of_its_times) {
  times_.note_whole();
  for (const auto& [idle_timeout_ms, ms] :
       {std::pair{0, 30'000}, {29'999, 29'999}, {30'000, 30'000}, {60'000, 30'000}}) {
    options_.idle_timeout_ms = idle_timeout_ms;
    expect_end(start_ms + ms);
  }
  times_.end_idle();
  EXPECT_EQ(times_.deadline_ms(), base::never_ms);
  times_.begin_idle(start_ms + 50);
  expect_end(start_ms + 50 + Http2Times::idle_ms_max);
}

TEST_F(Http2TimesTest, has_its_streams_checked_when_the_first_is_due) {
  for (const int64_t due_ms : {start_ms + 40, start_ms + 30, base::never_ms}) {
    times_.note_stream(due_ms);
  }
  EXPECT_EQ(times_.deadline_ms(), start_ms + 30);
  EXPECT_FALSE(times_.take_due_streams(start_ms + 29));
  EXPECT_TRUE(times_.take_due_streams(start_ms + 30));
  EXPECT_FALSE(times_.take_due_streams(start_ms + 40)) << "until they are noted again";
}

TEST_F(Http2TimesTest, has_its_last_goaway_due_once) {
  EXPECT_FALSE(times_.is_goaway_due(base::never_ms - 1));
  times_.expect_last_goaway(start_ms);
  EXPECT_EQ(times_.deadline_ms(), start_ms + options_.drain_grace_ms);
  EXPECT_FALSE(times_.is_goaway_due(start_ms + options_.drain_grace_ms - 1));
  EXPECT_TRUE(times_.is_goaway_due(start_ms + options_.drain_grace_ms));
  times_.note_last_goaway();
  EXPECT_FALSE(times_.is_goaway_due(start_ms + options_.drain_grace_ms));
}

}  // namespace
}  // namespace sluice::session
