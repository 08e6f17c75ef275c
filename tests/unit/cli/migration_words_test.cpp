// Goal:   the quotas that `import` prints are a configuration file, and what was carried is a
//         sentence.
// Method: the printed text is read as a server reads it.
#include "cli/migration_words.hpp"

#include <gtest/gtest.h>

#include "migration/model_quota.hpp"
#include "policy/rule_file.hpp"

namespace sluice::cli {
namespace {

TEST(MigrationWords, quotas_are_a_configuration_file) {
  const std::vector<migration::IncomingSubject> subjects{
      {.name = "gpt-4o", .quota = migration::quota_of({.max_rpm = 5, .max_tpm = 6}), .usage = {}},
      {.name = "a \"b\"\n/é", .quota = migration::quota_of({.max_rpd = 1}), .usage = {}}};
  const policy::ParsedRules parsed = policy::parse_rules(quotas_part(subjects));
  ASSERT_TRUE(parsed.complaints.empty()) << parsed.complaints.front();
  ASSERT_EQ(parsed.quotas.rules.size(), 2U);
  for (size_t at = 0; at < 2; ++at) {
    EXPECT_EQ(parsed.quotas.rules[at],
              (policy::QuotaRule{.subject = subjects[at].name, .quota = subjects[at].quota}));
  }
  EXPECT_TRUE(policy::parse_rules(quotas_part({})).complaints.empty());
}

TEST(MigrationWords, what_was_carried_is_a_sentence) {
  migration::Incoming incoming;
  incoming.subjects.resize(3);
  EXPECT_EQ(carried_text(incoming), "3 models, without usage");
  incoming.used_subjects = 2;
  incoming.requests = 1;
  incoming.token_events = 4;
  incoming.days = 1;
  EXPECT_EQ(carried_text(incoming), "3 models; of 2 the usage: 1 request, 4 token entries, 1 day");
  migration::Outgoing outgoing;
  outgoing.file.quotas["a"] = {};
  EXPECT_EQ(carried_text(outgoing), "1 model, without usage");
  outgoing.file.usage["a"] = {};
  outgoing.requests = 7;
  EXPECT_EQ(carried_text(outgoing), "1 model; of 1 the usage: 7 requests, 0 token entries, 0 days");
}

TEST(MigrationWords, each_complaint_has_a_line_and_its_place) {
  EXPECT_EQ(
      lines_of("x.yaml", {{.place = "line 3", .text = "is wrong"}, {.place = "", .text = "!"}}),
      "x.yaml: line 3: is wrong\nx.yaml: !\n");
}

}  // namespace
}  // namespace sluice::cli
