// Goal: metrics, kinds, units and sources have the names and numbers of docs and wire, for good.
// Method: all of them, one by one.
#include "api/limit.hpp"

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

TEST(Limit, metrics_keep_their_numbers_and_names) {
  EXPECT_EQ(metric_name(static_cast<Metric>(0)), "requests");
  EXPECT_EQ(metric_name(static_cast<Metric>(1)), "input_tokens");
  EXPECT_EQ(metric_name(static_cast<Metric>(2)), "output_tokens");
  EXPECT_EQ(metric_name(static_cast<Metric>(3)), "tokens");
  EXPECT_EQ(metric_name(static_cast<Metric>(4)), "cost");
  EXPECT_EQ(metric_name(static_cast<Metric>(5)), "concurrency");
  EXPECT_EQ(metrics_count, 6U);
}

TEST(Limit, kinds_keep_their_numbers_and_names) {
  EXPECT_EQ(kind_name(static_cast<LimitKind>(0)), "concurrency");
  EXPECT_EQ(kind_name(static_cast<LimitKind>(1)), "fixed");
  EXPECT_EQ(kind_name(static_cast<LimitKind>(2)), "sliding");
  EXPECT_EQ(kind_name(static_cast<LimitKind>(3)), "gcra");
  EXPECT_EQ(kind_name(static_cast<LimitKind>(4)), "anchored_day");
  EXPECT_EQ(kind_name(static_cast<LimitKind>(5)), "rolling_day");
  EXPECT_EQ(kind_name(static_cast<LimitKind>(6)), "calendar");
  EXPECT_EQ(limit_kinds_count, 7U);
}

TEST(Limit, units_and_sources_keep_their_numbers_and_names) {
  EXPECT_EQ(unit_name(static_cast<CalendarUnit>(0)), "none");
  EXPECT_EQ(unit_name(static_cast<CalendarUnit>(1)), "hour");
  EXPECT_EQ(unit_name(static_cast<CalendarUnit>(2)), "day");
  EXPECT_EQ(unit_name(static_cast<CalendarUnit>(3)), "week");
  EXPECT_EQ(unit_name(static_cast<CalendarUnit>(4)), "month");
  EXPECT_EQ(source_name(static_cast<QuotaSource>(0)), "none");
  EXPECT_EQ(source_name(static_cast<QuotaSource>(1)), "run_time");
  EXPECT_EQ(source_name(static_cast<QuotaSource>(2)), "file");
  EXPECT_EQ(source_name(static_cast<QuotaSource>(3)), "profile");
  EXPECT_EQ(source_name(static_cast<QuotaSource>(4)), "default");
}

TEST(Limit, unassigned_numbers_have_no_name) {
  EXPECT_EQ(metric_name(static_cast<Metric>(metrics_count)), "");
  EXPECT_EQ(kind_name(static_cast<LimitKind>(limit_kinds_count)), "");
  EXPECT_EQ(unit_name(static_cast<CalendarUnit>(5)), "");
  EXPECT_EQ(source_name(static_cast<QuotaSource>(5)), "");
}

TEST(Limit, limits_are_the_same_when_every_field_is) {
  const Limit limit{.name = "tpm", .metric = Metric::tokens, .amount = 5, .period_ms = 60'000};
  Limit other = limit;
  EXPECT_EQ(other, limit);
  other.count_cached = true;
  EXPECT_NE(other, limit);
  other = limit;
  other.ceiling = Ceiling::block;
  EXPECT_NE(other, limit);
  EXPECT_NE((Quota{.limits = {limit}, .overtakers_max = 1}), (Quota{.limits = {limit}}));
}

}  // namespace
}  // namespace sluice::api
