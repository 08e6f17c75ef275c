// Goal:   of a file's usage counts what counts for the library when it loads the file then.
// Method: events around each edge, to the nanosecond.
#include "migration/live_usage.hpp"

#include <gtest/gtest.h>

namespace sluice::migration {
namespace {

using transfer::ModelUsage;
using transfer::TokenEvent;

constexpr int64_t now_ns = 1'763'000'000 * base::ns_per_s;
constexpr int64_t minute_ns = 60 * base::ns_per_s;

TEST(LiveUsage, an_event_counts_for_less_than_a_minute) {
  const ModelUsage usage{
      .requests_wall_ns = {1, now_ns - minute_ns, now_ns - minute_ns + 1, now_ns},
      .tokens = {{.wall_ns = now_ns - minute_ns, .count = 7},
                 {.wall_ns = now_ns - minute_ns + 1, .count = 8}},
      .day_start_wall_ns = {}};
  const LiveUsage live = live_usage(usage, now_ns);
  EXPECT_EQ(live.requests_wall_ns, (std::vector<int64_t>{now_ns - minute_ns + 1, now_ns}));
  EXPECT_EQ(live.tokens,
            (std::vector<TokenEvent>{{.wall_ns = now_ns - minute_ns + 1, .count = 8}}));
  EXPECT_EQ(live.old_requests, 2U);
  EXPECT_EQ(live.old_tokens, 1U);
  EXPECT_EQ(live.future_requests + live.future_tokens, 0U);
  EXPECT_FALSE(live.day);
}

TEST(LiveUsage, the_future_counts_as_now) {
  const ModelUsage usage{.requests_wall_ns = {now_ns, now_ns + 1, INT64_MAX},
                         .tokens = {{.wall_ns = now_ns + minute_ns, .count = 9}},
                         .day_start_wall_ns = now_ns + 5,
                         .day_count = 3};
  const LiveUsage live = live_usage(usage, now_ns);
  EXPECT_EQ(live.requests_wall_ns, (std::vector<int64_t>(3, now_ns)));
  EXPECT_EQ(live.tokens, (std::vector<TokenEvent>{{.wall_ns = now_ns, .count = 9}}));
  EXPECT_EQ(live.day, (DayUsage{.start_wall_ns = now_ns, .count = 3}));
  EXPECT_EQ(live.future_requests, 2U);
  EXPECT_EQ(live.future_tokens, 1U);
}

TEST(LiveUsage, a_day_counts_for_less_than_24_hours) {
  for (const int64_t left_ns : {0, 1}) {
    const int64_t start = now_ns - base::ns_per_day + left_ns;
    const LiveUsage live = live_usage(
        {.requests_wall_ns = {}, .tokens = {}, .day_start_wall_ns = start, .day_count = 5}, now_ns);
    if (left_ns == 0) {
      EXPECT_FALSE(live.day);
      EXPECT_EQ(live.old_day_count, 5);
    } else {
      EXPECT_EQ(live.day, (DayUsage{.start_wall_ns = start, .count = 5}));
      EXPECT_EQ(live.old_day_count, 0);
    }
  }
}

TEST(LiveUsage, a_day_without_a_start_has_not_begun) {
  const LiveUsage live = live_usage(
      {.requests_wall_ns = {}, .tokens = {}, .day_start_wall_ns = {}, .day_count = 5}, now_ns);
  EXPECT_FALSE(live.has_any());
  EXPECT_EQ(live.old_day_count, 5);
}

TEST(LiveUsage, a_day_without_requests_begins_with_the_next_one) {
  const LiveUsage live =
      live_usage({.requests_wall_ns = {}, .tokens = {}, .day_start_wall_ns = 1}, now_ns);
  EXPECT_FALSE(live.has_any());
  EXPECT_EQ(live.old_day_count, 0);
}

TEST(LiveUsage, any_of_the_three_is_usage) {
  EXPECT_FALSE(live_usage({}, now_ns).has_any());
  EXPECT_TRUE(
      live_usage({.requests_wall_ns = {now_ns}, .tokens = {}, .day_start_wall_ns = {}}, now_ns)
          .has_any());
  EXPECT_TRUE(live_usage({.requests_wall_ns = {},
                          .tokens = {{.wall_ns = now_ns, .count = 0}},
                          .day_start_wall_ns = {}},
                         now_ns)
                  .has_any());
}

}  // namespace
}  // namespace sluice::migration
