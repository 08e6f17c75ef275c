// Goal: every verdict but an approval has a sentence of its own with the cause.
// Method: all verdicts, and one of a newer server.
#include "cli/verdict_words.hpp"

#include <gtest/gtest.h>

#include <set>

namespace sluice::cli {
namespace {

using sluicegate::Verdict;

TEST(VerdictWords, every_refusal_has_a_sentence_of_its_own) {
  std::set<std::string> sentences;
  for (uint8_t number = 2; number <= sluicegate::verdicts_count; ++number) {
    const auto verdict = static_cast<Verdict>(number);
    if (verdict == Verdict::queued) continue;
    const std::string sentence = verdict_sentence(verdict, false);
    EXPECT_TRUE(!sentence.empty() && sentences.insert(sentence).second) << name(verdict);
  }
}

TEST(VerdictWords, approval_needs_none) {
  EXPECT_EQ(verdict_sentence(Verdict::approved, false), "");
  EXPECT_EQ(verdict_sentence(Verdict::queued, true), "");
}

TEST(VerdictWords, an_unknown_answer_is_one_of_a_newer_server) {
  for (const Verdict verdict : {Verdict::none, Verdict{200}}) {
    EXPECT_NE(verdict_sentence(verdict, false).find("newer"), std::string::npos);
  }
}

TEST(VerdictWords, exit_with_2_where_the_limit_decided_nothing) {
  for (const Verdict verdict : {Verdict::invalid_key, Verdict::not_allowed, Verdict::draining,
                                Verdict::owner_unreachable}) {
    EXPECT_EQ(exit_code(verdict), 2) << name(verdict);
  }
  for (const Verdict verdict : {Verdict::denied, Verdict::wait_limit, Verdict::never_fits}) {
    EXPECT_EQ(exit_code(verdict), 1) << name(verdict);
  }
  EXPECT_EQ(exit_code(Verdict::approved), 0);
  EXPECT_EQ(exit_code(Verdict::queued), 0);
}

TEST(VerdictWords, advise_waiting_only_to_who_did_not_wait) {
  EXPECT_NE(verdict_sentence(Verdict::denied, false).find("--wait"), std::string::npos);
  EXPECT_EQ(verdict_sentence(Verdict::denied, true).find("--wait"), std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
