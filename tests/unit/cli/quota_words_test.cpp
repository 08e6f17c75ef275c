// Goal: limits as words become the same limits as from JSON, and complaints teach the form. Method:
//       words in, values or complaints out.
#include "cli/quota_words.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::cli {
namespace {

using sluicegate::Ceiling;
using sluicegate::LimitKind;
using sluicegate::Metric;

sluicegate::Limit limit_of(const std::string& words) {
  return quota_of_words({words}).limits.at(0);
}

std::string complaint_of(const std::string& words) {
  try {
    quota_of_words({words});
  } catch (const std::invalid_argument& fault) {
    return fault.what();
  }
  return "";
}

TEST(QuotaWords, a_limit_has_name_metric_amount_period_and_kind) {
  const sluicegate::Limit limit = limit_of("tpm:tokens:30000/60s:fixed");
  EXPECT_EQ(limit.name, "tpm");
  EXPECT_EQ(limit.metric, Metric::tokens);
  EXPECT_EQ(limit.amount, 30'000u);
  EXPECT_EQ(limit.period_ms, 60'000u);
  EXPECT_EQ(limit.kind, LimitKind::fixed);
  EXPECT_EQ(limit_of("tpm:tokens:1/250ms").kind, LimitKind::sliding);
  EXPECT_EQ(limit_of("tpm:tokens:1/250ms").period_ms, 250u);
  EXPECT_EQ(limit_of("rph:requests:1/2h").period_ms, 7'200'000u);
}

TEST(QuotaWords, periods_of_the_calendar_may_name_a_zone) {
  const sluicegate::Limit limit = limit_of("budget:cost:5/month@America/Los_Angeles");
  EXPECT_EQ(limit.kind, LimitKind::calendar);
  EXPECT_EQ(limit.unit, sluicegate::CalendarUnit::month);
  EXPECT_EQ(limit.time_zone, "America/Los_Angeles");
  EXPECT_EQ(limit_of("budget:cost:5/day").time_zone, "UTC");
}

TEST(QuotaWords, slots_have_no_period_and_amounts_may_be_words) {
  EXPECT_EQ(limit_of("slots:concurrency:4").kind, LimitKind::concurrency);
  EXPECT_EQ(limit_of("rpm:requests:block/60s").ceiling, Ceiling::block);
  EXPECT_EQ(limit_of("rpm:requests:unlimited/60s").ceiling, Ceiling::unlimited);
}

TEST(QuotaWords, prints_a_limit_in_the_words_it_is_read_from) {
  for (const char* words :
       {"tpm:tokens:30000/1m:fixed", "tpm:tokens:1/250ms:sliding", "tpm:tokens:1/90s:gcra",
        "rph:requests:1/2h:sliding", "rpd:requests:0/1d:anchored_day", "slots:concurrency:4",
        "rpm:requests:block/1m:sliding", "budget:cost:unlimited/month@America/Los_Angeles"}) {
    EXPECT_EQ(limit_words(limit_of(words)), words);
  }
}

TEST(QuotaWords, a_complaint_names_the_word_and_the_form) {
  EXPECT_NE(complaint_of("tpm:tokens").find("there is no amount"), std::string::npos);
  EXPECT_NE(complaint_of("tpm:tokens:5/60").find("'60' is not a period"), std::string::npos);
  EXPECT_NE(complaint_of("tpm:tokens:5/60").find("tpm:tokens:30000/60s:sliding"),
            std::string::npos);
  EXPECT_NE(complaint_of("tpm:tokns:5/60s").find("metric"), std::string::npos);
  EXPECT_NE(complaint_of("tpm:tokens:5").find("period"), std::string::npos);
}

TEST(QuotaWords, a_reservation_is_16_hexadecimal_digits) {
  EXPECT_EQ(parse_reservation("02000011abcdef01"), 0x0200'0011'ABCD'EF01u);
  EXPECT_THROW(parse_reservation("ab"), std::invalid_argument);
  EXPECT_THROW(parse_reservation("0x000011abcdef01"), std::invalid_argument);
}

TEST(QuotaWords, a_denial_has_its_reason_and_retry_time) {
  sluicegate::QuotaOutcome outcome{.code = sluicegate::QuotaCode::tpm_exceeded,
                                   .retry_after_ms = 1'500};
  outcome.limits.push_back({.name = "tpm", .amount = 100, .used = 90, .remaining = 10});
  EXPECT_EQ(denial_text(outcome),
            "tpm_exceeded: per-minute token limit reached; again in 1500 ms\n"
            "  tpm: 90 of 100 used, 0 of it reserved, 10 remaining\n");
  EXPECT_EQ(outcome_json(outcome).at("retry_after_ms"), 1'500);
  EXPECT_EQ(outcome_json(outcome).at("violated").at(0).at("amount"), 100);
  outcome.code = sluicegate::QuotaCode::exceeds_limit;
  EXPECT_TRUE(outcome_json(outcome).at("retry_after_ms").is_null());
}

TEST(QuotaWords, a_denial_by_several_subjects_names_them) {
  sluicegate::QuotaOutcome outcome{.code = sluicegate::QuotaCode::tpm_exceeded};
  outcome.limits.push_back({.subject = 1, .name = "tpm", .amount = 100, .used = 100});
  const std::vector<std::string> names{"gpt-4o", "acme"};
  EXPECT_EQ(denial_text(outcome, names),
            "tpm_exceeded: per-minute token limit reached\n"
            "  acme tpm: 100 of 100 used, 0 of it reserved, 0 remaining\n");
  EXPECT_EQ(outcome_json(outcome, names).at("violated").at(0).at("subject"), "acme");
}

}  // namespace
}  // namespace sluice::cli
