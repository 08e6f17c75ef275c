// Goal: subjects have the quota of the book that was adopted last, one class for each place.
// Method: two books by hand, the same names with other quotas.
#include "quota/current_book.hpp"

#include <gtest/gtest.h>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

policy::QuotaRules rules_with(uint64_t tokens) {
  return {.rules = {{.subject = "m", .quota = quota_of({tpm(tokens)})},
                    {.subject = "^x", .is_regex = true, .quota = quota_of({rpm(tokens)})}},
          .unknown_quota = {}};
}

TEST(CurrentBook, knows_no_subject_until_a_book_is_adopted) {
  CurrentBook current;
  EXPECT_EQ(current.quota_of("m").quota, nullptr);
  EXPECT_EQ(current.quota_of("m").source, api::QuotaSource::none);
  EXPECT_FALSE(current.names("m"));
  EXPECT_FALSE(current.denies_unknown());
}

TEST(CurrentBook, gives_subjects_of_one_rule_the_same_class) {
  CurrentBook current;
  policy::QuotaBook book(rules_with(5));
  current.adopt(book);
  const CurrentBook::OwnQuota own = current.quota_of("x1");
  ASSERT_NE(own.quota, nullptr);
  EXPECT_EQ(own.source, api::QuotaSource::file);
  EXPECT_EQ(current.quota_of("x2").quota, own.quota);
  EXPECT_NE(current.quota_of("m").quota, own.quota);
  EXPECT_TRUE(current.names("m"));
  EXPECT_FALSE(current.names("x1"));
}

TEST(CurrentBook, another_book_has_another_version_and_other_quotas) {
  CurrentBook current;
  policy::QuotaBook first(rules_with(5));
  policy::QuotaBook second(rules_with(7));
  current.adopt(first);
  const uint32_t version = current.version();
  current.quota_of("m");
  current.adopt(second);
  EXPECT_NE(current.version(), version);
  EXPECT_EQ(current.quota_of("m").quota->shapes[0].amount, 7U);
}

TEST(CurrentBook, releases_the_classes_of_earlier_books) {
  CurrentBook current;
  policy::QuotaBook first(rules_with(5));
  policy::QuotaBook second(rules_with(7));
  current.adopt(first);
  current.quota_of("m");
  EXPECT_FALSE(current.has_earlier_classes());
  current.adopt(second);
  EXPECT_TRUE(current.has_earlier_classes());
  EXPECT_EQ(current.classes().count(), 1U);
  current.free_earlier_slice();
  EXPECT_FALSE(current.has_earlier_classes());
  EXPECT_EQ(current.classes().count(), 0U);
}

TEST(CurrentBook, reports_whether_unknown_subjects_are_denied) {
  CurrentBook current;
  policy::QuotaBook book({.unknown = policy::UnknownSubjects::deny, .unknown_quota = {}});
  current.adopt(book);
  EXPECT_TRUE(current.denies_unknown());
}

}  // namespace
}  // namespace sluice::quota
