// Goal: two texts are the same if all their bytes are.
// Method: every byte changed at every length that is compared in a way of its own, and other
//         lengths.
#include "base/same_text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::base {
namespace {

constexpr size_t bytes_max = 20;

std::string text_of(size_t bytes) {
  return std::string("abcdefghijklmnopqrstuvwxyz", bytes);
}

TEST(SameText, has_the_same_bytes) {
  for (size_t bytes = 0; bytes <= bytes_max; ++bytes) {
    const std::string text = text_of(bytes);
    EXPECT_TRUE(is_same_text(text, std::string(text))) << bytes;
    for (size_t at = 0; at < bytes; ++at) {
      std::string other = text;
      other[at] = '#';
      EXPECT_FALSE(is_same_text(text, other)) << bytes << " bytes, another one at " << at;
    }
  }
}

TEST(SameText, has_the_same_length) {
  for (size_t bytes = 0; bytes < bytes_max; ++bytes) {
    EXPECT_FALSE(is_same_text(text_of(bytes), text_of(bytes + 1))) << bytes;
    EXPECT_FALSE(is_same_text(text_of(bytes + 1), text_of(bytes))) << bytes;
  }
}

}  // namespace
}  // namespace sluice::base
