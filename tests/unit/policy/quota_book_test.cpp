// Goal: a subject has the quota that comes first in the order of precedence.
// Method: books by example, each rule with an amount of its own.
#include "policy/quota_book.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "policy/rule_book.hpp"

namespace sluice::policy {
namespace {

using api::QuotaSource;

api::Quota quota_of(uint64_t amount) {
  return {
      .limits = {
          {.name = "rpm", .kind = api::LimitKind::fixed, .amount = amount, .period_ms = 60'000}}};
}

QuotaRule named(std::string subject, uint64_t amount) {
  return {.subject = std::move(subject), .quota = quota_of(amount)};
}

QuotaRule pattern(std::string subject, uint64_t amount) {
  return {.subject = std::move(subject), .is_regex = true, .quota = quota_of(amount)};
}

QuotaRule of_profile(std::string subject, uint64_t amount) {
  return {.subject = std::move(subject),
          .is_regex = false,
          .quota = quota_of(amount),
          .source = QuotaSource::profile};
}

QuotaRule prefix(QuotaRule rule) {
  rule.is_prefix = true;
  return rule;
}

QuotaRule regex(QuotaRule rule) {
  rule.is_regex = true;
  return rule;
}

struct Found {
  uint64_t amount = 0;  // 0: no quota
  QuotaSource source = QuotaSource::none;
  bool operator==(const Found&) const = default;
};

Found find(QuotaBook& book, std::string_view subject) {
  const SubjectQuota found = book.quota_of(subject);
  return {found.quota == nullptr ? 0 : found.quota->limits.at(0).amount, found.source};
}

TEST(QuotaBook, allows_every_subject_without_rules) {
  QuotaBook book;
  EXPECT_EQ(find(book, "m"), Found{});
  EXPECT_EQ(book.rules().unknown, UnknownSubjects::allow);
}

TEST(QuotaBook, prefers_name_to_pattern_to_profile_to_the_default) {
  QuotaRules rules{.rules = {pattern("^a", 1), of_profile("abc", 2), named("abc", 3),
                             of_profile("ab", 4), of_profile("b", 5)},
                   .unknown = UnknownSubjects::use_quota,
                   .unknown_quota = quota_of(6)};
  QuotaBook book{rules};
  EXPECT_EQ(find(book, "abc"), (Found{3, QuotaSource::file}));
  EXPECT_EQ(find(book, "ab"), (Found{1, QuotaSource::file}));
  EXPECT_EQ(find(book, "b"), (Found{5, QuotaSource::profile}));
  EXPECT_EQ(find(book, "c"), (Found{6, QuotaSource::file_default}));
  EXPECT_EQ(book.rule_of("abc"), 2);
  EXPECT_EQ(book.rule_of("c"), -1);
}

TEST(QuotaBook, uses_the_first_matching_pattern) {
  QuotaBook book{{.rules = {pattern("x$", 1), pattern("a", 2), pattern("^a", 3)}}};
  EXPECT_EQ(find(book, "ab"), (Found{2, QuotaSource::file}));
  EXPECT_EQ(find(book, "ax"), (Found{1, QuotaSource::file}));
  EXPECT_EQ(find(book, "b"), Found{});
}

TEST(QuotaBook, uses_the_last_profile_with_the_name) {
  QuotaBook book{{.rules = {of_profile("m", 1), of_profile("m", 2)}}};
  EXPECT_EQ(find(book, "m"), (Found{2, QuotaSource::profile}));
}

TEST(QuotaBook, gives_names_of_a_family_the_quota_of_its_longest_prefix) {
  QuotaBook book{{.rules = {prefix(of_profile("gpt-4o", 1)), prefix(of_profile("gpt-4o-mini", 2)),
                            prefix(of_profile("claude-sonnet-4", 3)), of_profile("gpt-4", 4)}}};
  const auto amount = [&](std::string_view subject) { return find(book, subject).amount; };
  EXPECT_EQ(amount("gpt-4o"), 1U);
  EXPECT_EQ(amount("gpt-4o-2024-08-06"), 1U);
  EXPECT_EQ(amount("gpt-4o-mini"), 2U);
  EXPECT_EQ(amount("gpt-4o-mini-2024-07-18"), 2U);
  EXPECT_EQ(amount("claude-sonnet-4-20250514"), 3U);
  EXPECT_EQ(amount("claude-sonnet-4@20250514"), 3U);
  for (const char* other : {"gpt-4omni", "gpt-4o.5", "gpt-4o_x", "my-gpt-4o", "GPT-4o-x",
                            "gpt-4-0613", "claude-sonnet-45", "claude-sonnet", ""}) {
    EXPECT_EQ(find(book, other), Found{}) << other;
  }
}

TEST(QuotaBook, uses_the_entry_of_profiles_that_matches_the_longest_part) {
  QuotaBook book{{.rules = {prefix(of_profile("m", 1)), regex(of_profile("^m-[0-9]+", 2)),
                            regex(of_profile("^m-[0-9]+-x", 3)), of_profile("m-1-x-y", 4),
                            regex(of_profile("^m-a", 5)), prefix(of_profile("m-a", 6)),
                            prefix(of_profile("m-b", 7)), regex(of_profile("m-b", 8))}}};
  const auto amount = [&](std::string_view subject) { return find(book, subject).amount; };
  EXPECT_EQ(amount("m-q"), 1U);
  EXPECT_EQ(amount("m-12"), 2U);
  EXPECT_EQ(amount("m-12-x"), 3U);
  EXPECT_EQ(amount("m-1-x-y"), 4U);
  EXPECT_EQ(amount("m-1-x-z"), 3U);
  // Of the same length: the last one.
  EXPECT_EQ(amount("m-a-1"), 6U);
  EXPECT_EQ(amount("m-b-1"), 8U);
  EXPECT_EQ(amount("m-b"), 7U);  // a prefix is a name, too
}

// "gpt-4o-mini-2024-07-18" never has the quota of "gpt-4o".
TEST(QuotaBook, prefers_a_longer_name_of_a_profile_to_a_prefix_of_the_file) {
  QuotaBook book{{.rules = {pattern("^m-2", 1), prefix(named("m-1", 2)), named("m-1-x", 3),
                            of_profile("m-2", 4), prefix(of_profile("m-1-x", 5))}}};
  EXPECT_EQ(find(book, "m-1-x"), (Found{3, QuotaSource::file}));
  EXPECT_EQ(find(book, "m-1-y"), (Found{2, QuotaSource::file}));
  EXPECT_EQ(find(book, "m-1-x-1"), (Found{5, QuotaSource::profile}));
  EXPECT_EQ(find(book, "m-2"), (Found{1, QuotaSource::file}));
}

TEST(QuotaBook, prefers_a_pattern_of_the_file_to_a_longer_name_of_a_profile) {
  QuotaBook book{{.rules = {prefix(named("m", 1)), pattern("mini", 2),
                            prefix(of_profile("m-1-mini", 3)), prefix(of_profile("m-2", 4))}}};
  EXPECT_EQ(find(book, "m-1-mini-x"), (Found{2, QuotaSource::file}));
  EXPECT_EQ(find(book, "m-2-x"), (Found{4, QuotaSource::profile}));
  EXPECT_EQ(find(book, "m-3-mini"), (Found{1, QuotaSource::file}));
}

TEST(QuotaBook, compares_whole_names_by_their_bytes) {
  const std::string zero{"a\0b", 3};
  QuotaBook book{{.rules = {named(zero, 1), named("gpt-4o", 2)}}};
  EXPECT_EQ(find(book, zero), (Found{1, QuotaSource::file}));
  for (const char* other : {"a", "gpt-4o-mini", "GPT-4o", "gpt-4", ""}) {
    EXPECT_EQ(find(book, other), Found{}) << other;
  }
}

TEST(QuotaBook, names_subjects_also_where_another_rule_precedes) {
  QuotaBook book{
      {.rules = {pattern("^a", 1), of_profile("abc", 2), named("def", 3), of_profile("def", 4)},
       .unknown = UnknownSubjects::use_quota,
       .unknown_quota = quota_of(5)}};
  EXPECT_TRUE(book.names("abc"));
  EXPECT_TRUE(book.names("def"));
  for (const char* other : {"a", "ab", "^a", "d", "x", ""})
    EXPECT_FALSE(book.names(other)) << other;
}

TEST(QuotaBook, gives_every_quota_its_own_place) {
  QuotaBook book{{.rules = {pattern("^a", 1), of_profile("abc", 2), named("def", 3)},
                  .unknown = UnknownSubjects::use_quota,
                  .unknown_quota = quota_of(5)}};
  EXPECT_EQ(book.places_end(), 4U);
  EXPECT_EQ(book.quota_of("abc").place, 0U);
  EXPECT_EQ(book.quota_of("def").place, 2U);
  EXPECT_EQ(book.quota_of("x").place, 3U);
}

TEST(QuotaBook, has_no_quota_for_denied_unknown_subjects) {
  QuotaBook book{{.unknown = UnknownSubjects::deny, .unknown_quota = quota_of(1)}};
  EXPECT_EQ(find(book, "m"), Found{});
}

TEST(QuotaBook, refuses_patterns_that_are_too_large_together) {
  QuotaRules rules;
  for (int i = 0; i < 200; ++i) rules.rules.push_back(pattern("([^x]y){1000}", 1));
  try {
    const QuotaBook book{rules};
    FAIL() << "it was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string{error.what()}.find("quotas.subjects: the regular expressions together"),
              std::string::npos);
  }
}

// Its file was read before and has no such pattern.
TEST(QuotaBook, names_the_entry_of_an_invalid_pattern) {
  const QuotaRules rules{.rules = {pattern("a", 1), pattern("a(b", 1)}};
  try {
    const QuotaBook book{rules};
    FAIL() << "it was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_TRUE(std::string{error.what()}.starts_with("quotas.subjects[1], subject: is not a"))
        << error.what();
  }
}

TEST(QuotaBook, is_part_of_the_rule_book) {
  RuleBook book{{}, {}, {.rules = {named("m", 3)}}};
  EXPECT_EQ(find(book.quotas(), "m"), (Found{3, QuotaSource::file}));
}

}  // namespace
}  // namespace sluice::policy
