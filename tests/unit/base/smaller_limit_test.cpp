// Goal:   of two limits the smaller one holds, and zero is none.
// Method: every case.
#include "base/smaller_limit.hpp"

#include <gtest/gtest.h>

namespace sluice::base {
namespace {

TEST(SmallerLimit, zero_is_no_limit) {
  EXPECT_EQ(smaller_limit(0, 0), 0U);
  EXPECT_EQ(smaller_limit(0, 7), 7U);
  EXPECT_EQ(smaller_limit(7, 0), 7U);
}

TEST(SmallerLimit, is_the_smaller_one) {
  EXPECT_EQ(smaller_limit(3, 7), 3U);
  EXPECT_EQ(smaller_limit(7, 3), 3U);
}

}  // namespace
}  // namespace sluice::base
