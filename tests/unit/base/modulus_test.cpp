// The rest is that of the division, whatever the numbers.
#include "base/modulus.hpp"

#include <gtest/gtest.h>

#include <random>

namespace sluice::base {
namespace {

TEST(Modulus, is_the_rest_of_the_division) {
  std::mt19937 random(7);
  for (uint32_t round = 0; round < 10'000; ++round) {
    const uint32_t divisor = round < 3'000 ? round + 1 : static_cast<uint32_t>(random()) | 1;
    const Modulus modulus(divisor);
    for (const uint32_t number :
         {0U, 1U, divisor - 1, divisor, divisor + 1, UINT32_MAX, static_cast<uint32_t>(random())}) {
      ASSERT_EQ(modulus.of(number), number % divisor) << number << " by " << divisor;
    }
  }
}

}  // namespace
}  // namespace sluice::base
