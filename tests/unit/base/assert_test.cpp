// A broken assertion ends the process and names its condition; one that holds costs nothing else.
// Method: death tests.
#include "base/assert.hpp"

#include <gtest/gtest.h>

namespace sluice::base {
namespace {

TEST(AssertDeathTest, ends_the_process_and_names_the_condition) {
  const int permits = 0;
  EXPECT_DEATH(ASSERT(permits > 0), "assert_test.cpp:[0-9]+: assertion failed: permits > 0");
}

TEST(Assert, evaluates_its_condition_once) {
  int evaluations = 0;
  ASSERT(++evaluations > 0);
  EXPECT_EQ(evaluations, 1);
}

}  // namespace
}  // namespace sluice::base
