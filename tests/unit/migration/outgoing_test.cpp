// Goal:   subjects become models with events that never count shorter than here, and what the
//         library lacks is named with its place.
// Method: subjects made up, without a state file.
#include "migration/outgoing.hpp"

#include <gtest/gtest.h>

#include <string>

#include "migration/model_quota.hpp"
#include "quota/compiled_quota.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::migration {
namespace {

using transfer::Complaint;
using transfer::ModelQuota;

constexpr int64_t s = base::ns_per_s;
constexpr StateMoment now{.state_ns = 1'000 * s + 5, .wall_ns = 1'763'000'000 * s};

std::string text_of(const std::vector<Complaint>& complaints) {
  std::string text;
  for (const Complaint& each : complaints) text += each.place + ": " + each.text + "\n";
  return text;
}

class OutgoingTest : public testing::Test {
 protected:
  SubjectMeters& add(const std::string& name, const api::Quota& quota) {
    stored_.subjects.push_back(
        {.name = name,
         .quota = quota,
         .meters = SubjectMeters(compiled_.hold(quota)->shapes, limiter::Moment{})});
    return stored_.subjects.back().meters;
  }

  quota::CompiledQuotas compiled_;
  StoredSubjects stored_{.now = now, .subjects = {}, .clock_warning = {}};
};

TEST_F(OutgoingTest, a_sub_window_becomes_events_at_its_end) {
  SubjectMeters& meters = add("a", quota_of({.max_rpm = 9, .max_tpm = 8, .max_rpd = 7}));
  meters.charge(2, 6, now.state_ns - 100 * s);
  meters.charge(0, 2, now.state_ns - 3 * s);  // a window that ends when the present one begins
  meters.charge(1, 70, now.state_ns - 3 * s);
  meters.charge(0, 1, now.state_ns);
  const Outgoing outgoing = outgoing_of(stored_, nullptr);
  EXPECT_EQ(outgoing.file.quotas.at("a"), (ModelQuota{.max_rpm = 9, .max_tpm = 8, .max_rpd = 7}));
  const transfer::ModelUsage& usage = outgoing.file.usage.at("a");
  const int64_t end = now.wall_ns - 6;
  EXPECT_EQ(usage.requests_wall_ns, (std::vector<int64_t>{end, end, now.wall_ns}));
  EXPECT_EQ(usage.tokens, (std::vector<transfer::TokenEvent>{{.wall_ns = end, .count = 70}}));
  EXPECT_EQ(usage.day_start_wall_ns, now.wall_ns - 100 * s);
  EXPECT_EQ(usage.day_count, 6);
  EXPECT_EQ(text_of(outgoing.left_out) + text_of(outgoing.complaints), "");
  EXPECT_EQ(outgoing.requests, 3U);
  EXPECT_EQ(outgoing.token_events, 1U);
  EXPECT_EQ(outgoing.days, 1U);
}

TEST_F(OutgoingTest, a_subject_without_usage_has_its_quota) {
  add("a", quota_of({.max_rpm = 9}));
  const Outgoing outgoing = outgoing_of(stored_, nullptr);
  EXPECT_EQ(outgoing.file.quotas.size(), 1U);
  EXPECT_TRUE(outgoing.file.usage.empty());
}

TEST_F(OutgoingTest, usage_follows_its_limit) {
  api::Quota quota = quota_of({.max_rpm = 9});
  std::swap(quota.limits[0], quota.limits[2]);
  SubjectMeters& meters = add("a", quota);
  meters.charge(2, 1, now.state_ns);
  meters.charge(0, 5, now.state_ns);
  const Outgoing outgoing = outgoing_of(stored_, nullptr);
  EXPECT_EQ(outgoing.file.usage.at("a").requests_wall_ns.size(), 1U);
  EXPECT_EQ(outgoing.file.usage.at("a").day_count, 5);
}

TEST_F(OutgoingTest, names_what_the_library_lacks) {
  add("acme", quota::quota_of({quota::limit_of("bill", api::Metric::cost, 5), quota::rpd(3)}));
  add("slots", quota::quota_of({quota::slots(3)}));
  stored_.open_reservations = 2;
  stored_.remembered_reservations = 3;
  policy::QuotaRules rules;
  rules.unknown = policy::UnknownSubjects::deny;
  rules.rules = {{.subject = "acme", .quota = {}},
                 {.subject = "gpt-", .is_prefix = true, .quota = {}},
                 {.subject = "^trial", .is_regex = true, .quota = {}}};
  const Outgoing outgoing = outgoing_of(stored_, &rules);
  EXPECT_EQ(outgoing.file.quotas.size(), 1U);
  EXPECT_EQ(
      text_of(outgoing.left_out),
      R"(subject acme, limits[0] ("bill"): the library limits only requests and tokens of any )"
      R"(minute, and requests of a day
subject slots, limits[0] ("slots"): the library limits only requests and tokens of any minute, )"
      R"(and requests of a day
subject slots: none of its limits: the library will allow it everything
open reservations: 2: what they hold counts as used; the library cannot settle it
ended reservations: 3 are remembered, to answer repeats of their calls
configuration file, prefix gpt-: the library knows whole names only: of the subjects that go on )"
      R"(behind it, those in the state file are there
configuration file, pattern ^trial: the library knows whole names only: of the subjects that it )"
      R"(matches, those in the state file are there
configuration file, unknown_subjects: the library allows everything to subjects without a quota
)");
}

TEST_F(OutgoingTest, complains_of_more_events_than_a_file_can_have) {
  SubjectMeters& meters = add("a", quota_of({}));
  meters.charge(0, outgoing_requests_max - 1, now.state_ns - 10 * s);
  meters.charge(0, 1, now.state_ns);
  EXPECT_TRUE(outgoing_of(stored_, nullptr).complaints.empty());
  add("b", quota_of({})).charge(0, limits::amount_max, now.state_ns);
  const Outgoing outgoing = outgoing_of(stored_, nullptr);
  ASSERT_EQ(outgoing.complaints.size(), 1U);
  EXPECT_NE(outgoing.complaints[0].text.find("more than 2000000 requests"), std::string::npos);
}

}  // namespace
}  // namespace sluice::migration
