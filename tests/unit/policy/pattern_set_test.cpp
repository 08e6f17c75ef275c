// Patterns match anywhere, all at once or one by one, and what is wrong with them is told. Method:
// small sets by example (random ones: rule_book_test).
#include "policy/pattern_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::policy {
namespace {

std::vector<int> matches(PatternSet& set, std::string_view text, bool one_by_one = false) {
  std::vector<int> found;
  one_by_one ? set.match_one_by_one(text, found) : set.match(text, found);
  std::ranges::sort(found);
  return found;
}

TEST(PatternSet, without_patterns_nothing_matches) {
  PatternSet set;
  EXPECT_EQ(set.compile(), "");
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(matches(set, "a"), std::vector<int>{});
  EXPECT_EQ(matches(set, "a", true), std::vector<int>{});
}

TEST(PatternSet, tells_the_numbers_of_those_that_match) {
  PatternSet set;
  EXPECT_EQ(set.add("b", 7), "");
  EXPECT_EQ(set.add("^b", 3), "");
  EXPECT_EQ(set.add("", 5), "");
  EXPECT_EQ(set.compile(), "");
  for (const bool one_by_one : {false, true}) {
    EXPECT_EQ(matches(set, "abc", one_by_one), (std::vector<int>{5, 7}));
    EXPECT_EQ(matches(set, "bc", one_by_one), (std::vector<int>{3, 5, 7}));
    EXPECT_EQ(matches(set, "", one_by_one), (std::vector<int>{5}));
  }
}

TEST(PatternSet, what_is_found_is_added_to_what_is_there) {
  PatternSet set;
  set.add("a", 1);
  set.compile();
  std::vector<int> found{9};
  set.match("a", found);
  EXPECT_EQ(found, (std::vector<int>{9, 1}));
}

TEST(PatternSet, tells_what_is_no_regular_expression) {
  PatternSet set;
  EXPECT_EQ(set.add("a(b", 0), "is not a regular expression: missing ): a(b");
}

TEST(PatternSet, tells_when_patterns_are_too_large_together) {
  PatternSet set;
  for (int i = 0; i < 200; ++i) set.add("([^x]y){1000}", i);
  EXPECT_EQ(set.compile(),
            "the regular expressions together take more than 16 MiB: fewer or simpler ones, "
            "please");
}

}  // namespace
}  // namespace sluice::policy
