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
    const std::string sentence = verdict_sentence(verdict, "user-7", false);
    EXPECT_TRUE(!sentence.empty() && sentences.insert(sentence).second) << name(verdict);
  }
}

TEST(VerdictWords, approval_needs_none) {
  EXPECT_EQ(verdict_sentence(Verdict::approved, "user-7", false), "");
  EXPECT_EQ(verdict_sentence(Verdict::queued, "user-7", true), "");
}

TEST(VerdictWords, an_unknown_answer_is_one_of_a_newer_server) {
  for (const Verdict verdict : {Verdict::none, Verdict{200}}) {
    EXPECT_NE(verdict_sentence(verdict, "user-7", false).find("newer"), std::string::npos);
  }
}

TEST(VerdictWords, name_what_is_wrong_with_a_key) {
  EXPECT_EQ(verdict_sentence(Verdict::invalid_key, "", false), "the key is empty");
  EXPECT_NE(verdict_sentence(Verdict::invalid_key, std::string(2'000, 'x'), false).find("2000"),
            std::string::npos);
}

TEST(VerdictWords, advise_waiting_only_to_who_did_not_wait) {
  EXPECT_NE(verdict_sentence(Verdict::denied, "user-7", false).find("--wait"), std::string::npos);
  EXPECT_EQ(verdict_sentence(Verdict::denied, "user-7", true).find("--wait"), std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
