// Goal: quantiles are right within a bucket's width. Method: known values in, quantiles out.
#include "load/latency_histogram.hpp"

#include <gtest/gtest.h>

namespace sluice::load {
namespace {

TEST(LatencyHistogram, finds_quantiles_within_two_percent) {
  LatencyHistogram histogram;
  for (uint64_t us = 1; us <= 10'000; ++us) histogram.add(us * 1'000);
  EXPECT_NEAR(histogram.quantile_us(0.5), 5'000, 100);
  EXPECT_NEAR(histogram.quantile_us(0.99), 9'900, 200);
  EXPECT_DOUBLE_EQ(histogram.max_us(), 10'000);
}

TEST(LatencyHistogram, keeps_small_values_exactly) {
  LatencyHistogram histogram;
  for (const uint64_t ns : {5, 60, 63}) histogram.add(ns);
  EXPECT_DOUBLE_EQ(histogram.quantile_us(0), 0.005);
  EXPECT_DOUBLE_EQ(histogram.quantile_us(0.5), 0.060);
}

TEST(LatencyHistogram, takes_the_largest_value) {
  LatencyHistogram histogram;
  histogram.add(UINT64_MAX);
  EXPECT_EQ(histogram.count(), 1u);
  EXPECT_DOUBLE_EQ(histogram.quantile_us(0.5), histogram.max_us());
}

TEST(LatencyHistogram, of_two_runs_is_that_of_both) {
  LatencyHistogram histogram;
  LatencyHistogram other;
  for (uint64_t us = 1; us <= 10'000; ++us) (us % 3 == 0 ? histogram : other).add(us * 1'000);
  histogram += other;
  EXPECT_EQ(histogram.count(), 10'000u);
  EXPECT_NEAR(histogram.quantile_us(0.5), 5'000, 100);
  EXPECT_DOUBLE_EQ(histogram.max_us(), 10'000);
}

TEST(LatencyHistogram, is_zero_when_empty) {
  EXPECT_DOUBLE_EQ(LatencyHistogram{}.quantile_us(0.99), 0);
}

}  // namespace
}  // namespace sluice::load
