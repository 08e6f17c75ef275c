// Goal: a dry run prints the present and the future quota. Method: whole texts.
#include "cli/quota_dry_run.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/quota_words.hpp"

namespace sluice::cli {
namespace {

sluicegate::SubjectState present() {
  sluicegate::SubjectState subject;
  subject.name = "gpt";
  subject.source = sluicegate::QuotaSource::run_time;
  subject.quota = quota_of_words({"tpm:tokens:30000/60s"});
  sluicegate::LimitState state;
  state.name = "tpm";
  state.used = 900;
  state.reserved = 20;
  subject.limits = {state};
  return subject;
}

TEST(QuotaDryRun, prints_the_present_and_the_future_quota) {
  const DryRun run{.change = QuotaChange::set,
                   .present = present(),
                   .quota = quota_of_words({"tpm:tokens:5/1h", "slots:concurrency:2"})};
  EXPECT_EQ(dry_run_text(run),
            "now:\n  tpm:tokens:30000/1m:sliding  900 used, 20 of it reserved\n"
            "then:\n  tpm:tokens:5/1h:sliding\n  slots:concurrency:2\nnothing was changed\n");
  const auto json = nlohmann::json::parse(dry_run_json(run));
  EXPECT_EQ(json["dry_run"], true);
  EXPECT_EQ(json["subject"], "gpt");
  EXPECT_EQ(json["quota"]["limits"][0]["amount"], 5);
  EXPECT_FALSE(json["quota"].contains("overtakers")) << "defaults are left out, as in REST";
  EXPECT_EQ(json["present"]["limits"][0]["used"], 900);
}

TEST(QuotaDryRun, prints_that_there_is_no_quota) {
  DryRun run;
  EXPECT_EQ(dry_run_text(run), "now:\n  no quota\nthen:\n  no limits\nnothing was changed\n");
  EXPECT_FALSE(nlohmann::json::parse(dry_run_json(run)).contains("present"));
}

TEST(QuotaDryRun, prints_the_effect_of_a_removal_and_of_a_reset) {
  const std::string remove = dry_run_text({.change = QuotaChange::remove, .present = present()});
  EXPECT_NE(remove.find("then:\n  the configuration file's quota\n"), std::string::npos);
  const std::string reset = dry_run_text({.change = QuotaChange::reset, .present = present()});
  EXPECT_NE(reset.find("then:\n  usage is 0, except for open"), std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
