// Goal: only the whole secret is the same; an empty one is never shown.
// Method: every bit changed, and every length up to twice the right one.
#include "base/same_secret.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::base {
namespace {

const std::string secret = "0123456789abcdef";

TEST(SameSecret, has_the_same_bytes) {
  EXPECT_TRUE(is_same_secret(secret, secret));
  for (size_t bit = 0; bit < 8 * secret.size(); ++bit) {
    std::string other = secret;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(is_same_secret(other, secret)) << "bit " << bit;
  }
}

TEST(SameSecret, has_the_same_length) {
  const std::string twice = secret + secret;
  for (size_t bytes = 0; bytes <= twice.size(); ++bytes) {
    EXPECT_EQ(is_same_secret(twice.substr(0, bytes), secret), bytes == secret.size()) << bytes;
  }
}

TEST(SameSecret, nothing_is_the_same_as_none) {
  EXPECT_FALSE(is_same_secret("", ""));
  EXPECT_FALSE(is_same_secret("shown", ""));
}

}  // namespace
}  // namespace sluice::base
