// Goal: a list reads as in a sentence, however many words it has. Method: examples of each length.
#include "text/joined_list.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace sluice::text {
namespace {

TEST(JoinedList, separates_by_commas_and_a_last_word) {
  constexpr std::array<std::string_view, 3> kinds{"fixed", "sliding", "gcra"};
  EXPECT_EQ(joined_list(kinds, "or"), "fixed, sliding or gcra");
  EXPECT_EQ(joined_list(kinds, "and"), "fixed, sliding and gcra");
}

TEST(JoinedList, joins_two_words_without_a_comma) {
  EXPECT_EQ(joined_list(std::vector<std::string_view>{"keep", "refund"}, "or"), "keep or refund");
}

TEST(JoinedList, leaves_one_word_as_it_is) {
  EXPECT_EQ(joined_list(std::vector<std::string_view>{"openai"}, "and"), "openai");
}

TEST(JoinedList, is_empty_without_words) {
  EXPECT_EQ(joined_list({}, "or"), "");
}

}  // namespace
}  // namespace sluice::text
