// Goal: patterns match anywhere, all at once or one by one, and their faults are reported.
// Method: small sets by example, random ones matched both ways.
#include "policy/pattern_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::policy {
namespace {

std::vector<int> matches(PatternSet& set, std::string_view text, bool one_by_one = false) {
  std::vector<int> found;
  one_by_one ? set.match_one_by_one(text, found) : set.match(text, found);
  std::ranges::sort(found);
  return found;
}

TEST(PatternSet, matches_nothing_without_patterns) {
  PatternSet set;
  EXPECT_EQ(set.compile(), "");
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(matches(set, "a"), std::vector<int>{});
  EXPECT_EQ(matches(set, "a", true), std::vector<int>{});
}

TEST(PatternSet, reports_the_numbers_of_matching_patterns) {
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

// One by one is the fallback for a set that runs out of memory.
TEST(PatternSet, finds_the_same_patterns_one_by_one) {
  const std::vector<std::string> patterns = {"a",     "^a", "b$", "a.*b", "[^a]",  "aa|bb",
                                             "(ab)+", "",   "^$", "x",    "a{2,3}"};
  std::mt19937 random{7};
  for (int round = 0; round < 300; ++round) {
    PatternSet set;
    for (int number = 0; number < 8; ++number) {
      ASSERT_EQ(set.add(patterns[random() % patterns.size()], number), "");
    }
    ASSERT_EQ(set.compile(), "");
    for (int asked = 0; asked < 20; ++asked) {
      std::string text(random() % 6, 'a');
      for (char& c : text) c = "ab"[random() % 2];
      ASSERT_EQ(matches(set, text, true), matches(set, text)) << text;
    }
  }
}

TEST(PatternSet, finds_all_of_many_large_patterns) {
  PatternSet set;
  for (int i = 0; i < 10; ++i) ASSERT_EQ(set.add("([^x]y){1000}", i), "");
  ASSERT_EQ(set.add("^z", 10), "");
  ASSERT_EQ(set.compile(), "");
  std::string text;
  for (int i = 0; i < 1'000; ++i) text += "ay";
  EXPECT_EQ(matches(set, text).size(), 10U);
  EXPECT_EQ(matches(set, "z"), std::vector<int>{10});
}

TEST(PatternSet, appends_to_earlier_matches) {
  PatternSet set;
  set.add("a", 1);
  set.compile();
  std::vector<int> found{9};
  set.match("a", found);
  EXPECT_EQ(found, (std::vector<int>{9, 1}));
}

TEST(PatternSet, refuses_an_invalid_regular_expression) {
  PatternSet set;
  EXPECT_EQ(set.add("a(b", 0), "is not a regular expression: missing ): a(b");
}

TEST(PatternSet, refuses_patterns_that_are_too_large_together) {
  PatternSet set;
  for (int i = 0; i < 200; ++i) set.add("([^x]y){1000}", i);
  EXPECT_EQ(set.compile(),
            "the regular expressions together take more than 16 MiB: use fewer or simpler ones");
}

TEST(PatternSet, knows_how_long_the_longest_match_is) {
  PatternSet patterns;
  ASSERT_EQ(patterns.add("b+|b+c", 4), "");
  ASSERT_EQ(patterns.add("^a", 9), "");
  ASSERT_EQ(patterns.compile(), "");
  EXPECT_EQ(patterns.match_bytes("abbbc", 4), 4U);
  EXPECT_EQ(patterns.match_bytes("abbbc", 9), 1U);
  EXPECT_EQ(patterns.match_bytes("x", 9), 0U);
}

}  // namespace
}  // namespace sluice::policy
