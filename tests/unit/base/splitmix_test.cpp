// Goal:   the numbers are those of SplitMix64 everywhere, so that a seed repeats a run.
// Method: its first outputs for the seed 0, as published, computed at compile time too.
#include "base/splitmix.hpp"

#include <gtest/gtest.h>

namespace sluice::base {
namespace {

TEST(SplitMix, gives_the_published_outputs_for_the_seed_zero) {
  uint64_t state = 0;
  EXPECT_EQ(splitmix64(state += splitmix64_step), 0xE220'A839'7B1D'CDAF);
  EXPECT_EQ(splitmix64(state += splitmix64_step), 0x6E78'9E6A'A1B9'65F4);
  EXPECT_EQ(splitmix64(state += splitmix64_step), 0x06C4'5D18'8009'454F);
  EXPECT_EQ(splitmix64(state += splitmix64_step), 0xF88B'B8A8'724C'81EC);
  static_assert(splitmix64(splitmix64_step) == 0xE220'A839'7B1D'CDAF);
}

}  // namespace
}  // namespace sluice::base
