// Goal:   a number and its noun agree.
// Method: the numbers at which they change.
#include "text/counted.hpp"

#include <gtest/gtest.h>

namespace sluice::text {
namespace {

TEST(Counted, one_thing_is_singular) {
  EXPECT_EQ(counted(0, "entry", "entries"), "0 entries");
  EXPECT_EQ(counted(1, "entry", "entries"), "1 entry");
  EXPECT_EQ(counted(UINT64_MAX, "entry", "entries"), "18446744073709551615 entries");
}

}  // namespace
}  // namespace sluice::text
