// Method: fixed times, as Go's time.RFC3339Nano writes them except for trailing zeros.
#include "log/time.hpp"

#include <gtest/gtest.h>

namespace sluice::log {
namespace {

TEST(LogTime, is_utc_with_nanoseconds) {
  EXPECT_EQ(utc_time(0), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(utc_time(784'111'777'000'000'001), "1994-11-06T08:49:37.000000001Z");
  EXPECT_EQ(utc_time(1'709'210'096'999'999'999), "2024-02-29T12:34:56.999999999Z");
}

TEST(LogTime, advances) {
  const base::Now before = now();
  EXPECT_GE(now().monotonic_ns, before.monotonic_ns);
  EXPECT_GT(before.wall_ns, 1'700'000'000 * base::ns_per_s);
}

}  // namespace
}  // namespace sluice::log
