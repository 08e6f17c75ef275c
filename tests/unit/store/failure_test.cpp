// Goal: every failure has a name, a cause and a cure. Method: all kinds.
#include "store/failure.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

namespace sluice::store {
namespace {

TEST(Failure, has_a_name_of_its_own_a_cause_and_a_cure) {
  std::set<std::string> names;
  std::set<std::string> texts;
  for (size_t i = 0; i < failure_kinds_count; ++i) {
    const auto kind = static_cast<FailureKind>(i);
    const Failure failure = make_failure(kind, "/f", "why");
    EXPECT_EQ(failure.kind, kind);
    EXPECT_EQ(failure.detail, "why");
    EXPECT_TRUE(failure.text.starts_with("/f: ")) << failure.text;
    EXPECT_NE(failure.text.find(" (why); "), std::string::npos) << failure.text;
    EXPECT_NE(failure.text.find(failure_cause(kind)), std::string::npos) << failure.text;
    names.emplace(failure_name(kind));
    texts.insert(failure.text);
  }
  EXPECT_EQ(names.size(), failure_kinds_count);
  EXPECT_EQ(texts.size(), failure_kinds_count);
}

TEST(Failure, leaves_out_brackets_without_a_detail) {
  EXPECT_EQ(make_failure(FailureKind::empty, "/f").text,
            "/f: it is empty; restore a backup, or delete it to begin anew");
}

TEST(Failure, is_final_when_trying_again_cannot_help) {
  for (const auto kind : {FailureKind::full, FailureKind::io, FailureKind::readonly,
                          FailureKind::busy, FailureKind::fsync, FailureKind::no_access}) {
    EXPECT_FALSE(is_final(kind)) << failure_name(kind);
  }
  for (const auto kind : {FailureKind::corrupt, FailureKind::moved, FailureKind::newer_version}) {
    EXPECT_TRUE(is_final(kind)) << failure_name(kind);
  }
}

TEST(Failure, knows_why_the_system_does_not_open_a_file) {
  const auto kind = [](int error) { return fail_to_open("/f", error).value().kind; };
  EXPECT_EQ(kind(ENOSPC), FailureKind::full);
  EXPECT_EQ(kind(EDQUOT), FailureKind::full);
  EXPECT_EQ(kind(EROFS), FailureKind::readonly);
  EXPECT_EQ(kind(EEXIST), FailureKind::exists);
  EXPECT_EQ(kind(EACCES), FailureKind::no_access);
  EXPECT_EQ(fail_to_open("/f", EACCES).value().detail, "Permission denied");
}

TEST(Failure, is_damage_before_the_file_is_used) {
  const Failure found = before_use(make_failure(FailureKind::corrupt, "/f", "why"), "/f");
  EXPECT_EQ(found.text, make_failure(FailureKind::damaged, "/f", "why").text);
  EXPECT_EQ(before_use(make_failure(FailureKind::io, "/f"), "/f").kind, FailureKind::io);
}

}  // namespace
}  // namespace sluice::store
