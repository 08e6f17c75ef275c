// Goal: the longest prefix that ends where a name ends, or before a separator, is found.
// Method: cases by hand; random prefixes and names against a search of all of them.
#include "policy/prefix_set.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace sluice::policy {
namespace {

TEST(PrefixSet, finds_nothing_when_it_is_empty) {
  EXPECT_FALSE(PrefixSet{}.find_longest("a"));
  EXPECT_FALSE(PrefixSet{}.find_longest(""));
}

TEST(PrefixSet, ends_before_each_separator) {
  PrefixSet set;
  set.add("a", 7);
  for (const char separator : prefix_separators) {
    const std::string name = std::string("a") + separator + "b";
    ASSERT_TRUE(set.find_longest(name)) << name;
    EXPECT_EQ(set.find_longest(name)->number, 7);
    EXPECT_EQ(set.find_longest(name)->bytes, 1U);
  }
  for (const char* other : {"ab", "a.b", "a_b", "a b", "-a", "b"}) {
    EXPECT_FALSE(set.find_longest(other)) << other;
  }
}

TEST(PrefixSet, ends_behind_a_separator_of_its_own) {
  PrefixSet set;
  set.add("acme-", 7);
  EXPECT_EQ(set.find_longest("acme-eu")->number, 7);
  EXPECT_EQ(set.find_longest("acme-")->number, 7);
  EXPECT_FALSE(set.find_longest("acme"));
}

TEST(PrefixSet, of_the_same_prefix_twice_the_last_one_counts) {
  PrefixSet set;
  set.add("a", 1);
  set.add("a", 2);
  EXPECT_EQ(set.find_longest("a-b")->number, 2);
}

TEST(PrefixSet, finds_what_a_search_of_all_prefixes_finds) {
  std::mt19937_64 random(1);
  const auto text = [&](size_t bytes_max) {
    std::string made(random() % bytes_max + 1, 'a');
    for (char& letter : made) letter = "ab-:"[random() % 4];
    return made;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> prefixes(random() % 12 + 1);
    for (std::string& prefix : prefixes) prefix = text(6);
    PrefixSet set;
    for (size_t i = 0; i < prefixes.size(); ++i) set.add(prefixes[i], static_cast<int>(i));
    for (int tried = 0; tried < 30; ++tried) {
      const std::string name = text(10);
      int best = -1;
      size_t bytes = 0;
      for (size_t i = 0; i < prefixes.size(); ++i) {
        const size_t size = prefixes[i].size();
        const std::string beside =
            size > name.size() ? "" : name.substr(size - 1, 2);  // the prefix's end
        const bool matches = name.starts_with(prefixes[i]) &&
                             (size == name.size() || beside.find_first_of("-:") != beside.npos);
        if (!matches || size < bytes) continue;
        best = static_cast<int>(i);
        bytes = size;
      }
      const auto found = set.find_longest(name);
      ASSERT_EQ(found ? found->number : -1, best) << name;
    }
  }
}

}  // namespace
}  // namespace sluice::policy
