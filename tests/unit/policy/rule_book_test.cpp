// Goal: a key has the default policy, overwritten field by field by every rule that matches.
// Method: books by example; random books compared with RE2, pattern by pattern.
#include "policy/rule_book.hpp"

#include <gtest/gtest.h>
#include <re2/re2.h>

#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::policy {
namespace {

constexpr limiter::Policy default_policy{
    .window_ms = 1'000, .max_requests = 100, .max_requests_in_queue = 400};

Rule requests_of(std::string pattern, uint32_t max_requests, bool is_regex = false) {
  return {.pattern = std::move(pattern), .is_regex = is_regex, .max_requests = max_requests};
}

uint32_t limit_of(RuleBook& book, std::string_view key) {
  return book.policy_of(key).max_requests;
}

TEST(RuleBook, has_the_default_policy_without_rules) {
  RuleBook book{default_policy};
  EXPECT_TRUE(book.empty());
  EXPECT_EQ(book.policy_of("k"), default_policy);
}

TEST(RuleBook, matches_a_literal_with_the_whole_key) {
  RuleBook book{default_policy, {requests_of("user.1", 7)}};
  EXPECT_EQ(limit_of(book, "user.1"), 7U);
  for (const char* other : {"user.10", "a user.1", "userx1", "USER.1"}) {
    EXPECT_EQ(limit_of(book, other), 100U) << other;
  }
}

TEST(RuleBook, matches_a_regular_expression_anywhere) {
  RuleBook book{default_policy, {requests_of("premium-", 7, true), requests_of("^a.c$", 8, true)}};
  EXPECT_EQ(limit_of(book, "my-premium-key"), 7U);
  EXPECT_EQ(limit_of(book, "abc"), 8U);
  EXPECT_EQ(limit_of(book, "abcd"), 100U);
}

TEST(RuleBook, matches_an_empty_regular_expression_with_every_key) {
  RuleBook book{default_policy, {requests_of("", 7, true)}};
  EXPECT_EQ(limit_of(book, "k"), 7U);
}

TEST(RuleBook, overwrites_earlier_rules_field_by_field) {
  RuleBook book{default_policy,
                {{.pattern = ".*", .is_regex = true, .max_requests = 1, .window_ms = 50},
                 {.pattern = "k", .max_requests = 2, .max_requests_in_queue = 0},
                 {.pattern = "^k", .is_regex = true, .max_requests = 3},
                 {.pattern = "other", .max_requests = 4}}};
  EXPECT_EQ(book.policy_of("k"),
            (limiter::Policy{.window_ms = 50, .max_requests = 3, .max_requests_in_queue = 0}));
  EXPECT_EQ(book.matches("k"), (std::vector<int>{0, 1, 2}));
}

TEST(RuleBook, compares_keys_by_their_bytes) {
  const std::string zero{"a\0b", 3};
  RuleBook book{default_policy, {requests_of(zero, 7), requests_of("\xc3\xa5", 8, true)}};
  EXPECT_EQ(limit_of(book, zero), 7U);
  EXPECT_EQ(limit_of(book, "a"), 100U);
  EXPECT_EQ(limit_of(book, "\xc3\xa5"), 8U);
  EXPECT_EQ(limit_of(book, "\xff\xfe"), 100U);
}

TEST(RuleBook, refuses_patterns_that_are_too_large_together) {
  std::vector<Rule> rules;
  for (int i = 0; i < 200; ++i) rules.push_back(requests_of("([^x]y){1000}", 1, true));
  try {
    const RuleBook book{default_policy, std::move(rules)};
    FAIL() << "it was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string{error.what()}.find("together take more than 16 MiB"), std::string::npos);
  }
}

// Its file was read before and has no such pattern.
TEST(RuleBook, names_the_entry_of_an_invalid_pattern) {
  try {
    const RuleBook book{default_policy, {requests_of("a", 1, true), requests_of("a(b", 1, true)}};
    FAIL() << "it was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_TRUE(std::string{error.what()}.starts_with("keys[1], key_pattern: is not a regular"))
        << error.what();
  }
}

TEST(RuleBook, agrees_with_its_patterns_one_by_one) {
  const std::vector<std::string> patterns = {"a",     "^a", "b$", "a.*b", "[^a]",  "aa|bb",
                                             "(ab)+", "",   "^$", "x",    "a{2,3}"};
  std::mt19937 random{7};
  for (int round = 0; round < 300; ++round) {
    std::vector<Rule> rules;
    for (uint32_t i = 0; i < 8; ++i) {
      const bool is_regex = random() % 3 != 0;
      Rule rule{.pattern = patterns[random() % patterns.size()], .is_regex = is_regex};
      if (random() % 2 == 0) rule.max_requests = i + 1;
      if (random() % 2 == 0) rule.max_requests_in_queue = i;
      if (random() % 2 == 0) rule.window_ms = 10 + i;
      rules.push_back(rule);
    }
    RuleBook book{default_policy, rules};
    for (int asked = 0; asked < 20; ++asked) {
      std::string key(1 + random() % 5, 'a');
      for (char& c : key) c = "ab"[random() % 2];
      limiter::Policy expected = default_policy;
      for (const Rule& rule : rules) {
        const bool matches =
            rule.is_regex ? RE2::PartialMatch(key, rule.pattern) : key == rule.pattern;
        if (matches) rule.apply_to(expected);
      }
      ASSERT_EQ(book.policy_of(key), expected) << key;
    }
  }
}

}  // namespace
}  // namespace sluice::policy
