// Goal:   every quota of go-ratelimit becomes one of ours that decides alike, and is the same after
//         the way back; of ours, whatever the library lacks is named.
// Method: tables of quotas, in both directions.
#include "migration/model_quota.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/limits.hpp"
#include "policy/quota_text.hpp"

namespace sluice::migration {
namespace {

using api::Ceiling;
using api::LimitKind;
using api::Metric;
using transfer::ModelQuota;

api::Limit limit(const std::string& name, Metric metric, LimitKind kind, uint64_t amount,
                 int64_t period_ms = minute_ms) {
  return {.name = name,
          .metric = metric,
          .kind = kind,
          .amount = amount,
          .period_ms = period_ms,
          .time_zone = {}};
}

api::Quota quota(std::vector<api::Limit> limits) {
  return {.limits = std::move(limits), .profile = {}};
}

TEST(ModelQuota, becomes_three_limits) {
  EXPECT_EQ(
      policy::quota_json(quota_of({.max_rpm = 500, .max_tpm = 30'000, .max_rpd = 1'000})).dump(),
      R"({"limits":[)"
      R"({"name":"rpm","metric":"requests","amount":500,"period_ms":60000,"kind":"sliding"},)"
      R"({"name":"tpm","metric":"tokens","amount":30000,"period_ms":60000,"kind":"sliding"},)"
      R"({"name":"rpd","metric":"requests","amount":1000,"period_ms":86400000,)"
      R"("kind":"anchored_day"}]})");
}

TEST(ModelQuota, its_zero_is_unlimited) {
  for (const api::Limit& each : quota_of({}).limits) {
    EXPECT_EQ(each.ceiling, Ceiling::unlimited) << each.name;
  }
  api::Quota checked = quota_of({.max_tpm = INT64_MAX});
  EXPECT_TRUE(policy::check_quota(checked).empty());
  EXPECT_EQ(checked, quota_of({.max_tpm = INT64_MAX})) << "as a server reads it";
}

TEST(ModelQuota, returns_the_same) {
  for (const ModelQuota& each :
       {ModelQuota{}, ModelQuota{.max_rpm = 1}, ModelQuota{.max_tpm = INT64_MAX},
        ModelQuota{.max_rpd = 9}, ModelQuota{.max_rpm = 3, .max_tpm = 4, .max_rpd = 5}}) {
    const QuotaOutThere back = model_quota_of(quota_of(each));
    EXPECT_EQ(back.quota, each);
    EXPECT_TRUE(back.is_known);
    EXPECT_TRUE(back.left_out.empty());
    EXPECT_EQ(back.places, (decltype(back.places){0, 1, 2}));
  }
}

TEST(ModelQuota, leaves_out_and_names_what_the_library_lacks) {
  const QuotaOutThere back = model_quota_of(quota({
      limit("input", Metric::input_tokens, LimitKind::sliding, 1),
      limit("rpm", Metric::requests, LimitKind::sliding, 7),
      limit("hour", Metric::requests, LimitKind::sliding, 1, 3'600'000),
      limit("fixed", Metric::requests, LimitKind::fixed, 1),
      limit("bucket", Metric::tokens, LimitKind::gcra, 1),
      limit("day", Metric::tokens, LimitKind::anchored_day, 1, 86'400'000),
      limit("any day", Metric::requests, LimitKind::rolling_day, 1, 86'400'000),
      limit("month", Metric::cost, LimitKind::calendar, 1, 0),
      limit("slots", Metric::concurrency, LimitKind::concurrency, 1, 0),
  }));
  EXPECT_EQ(back.quota, (ModelQuota{.max_rpm = 7}));
  EXPECT_TRUE(back.is_known);
  ASSERT_EQ(back.left_out.size(), 8U);
  EXPECT_EQ(back.left_out[0].place, R"(limits[0] ("input"))");
  EXPECT_EQ(back.left_out[7].place, R"(limits[8] ("slots"))");
}

TEST(ModelQuota, of_several_alike_the_lowest_counts) {
  api::Limit unlimited = limit("first", Metric::requests, LimitKind::sliding, 0);
  unlimited.ceiling = Ceiling::unlimited;
  const QuotaOutThere back =
      model_quota_of(quota({unlimited, limit("second", Metric::requests, LimitKind::sliding, 5),
                            limit("third", Metric::requests, LimitKind::sliding, 6)}));
  EXPECT_EQ(back.quota.max_rpm, 5);
  EXPECT_EQ(back.places[0], 1U);
  ASSERT_EQ(back.left_out.size(), 2U);
  EXPECT_EQ(back.left_out[0].place, R"(limits[0] ("first"))");
  EXPECT_EQ(back.left_out[1].place, R"(limits[2] ("third"))");
}

// Its 0 would open what ours closes.
TEST(ModelQuota, never_turns_a_closed_limit_into_an_open_one_silently) {
  api::Limit block = limit("block", Metric::tokens, LimitKind::sliding, 0);
  block.ceiling = Ceiling::block;
  for (const api::Limit& closed : {block, limit("zero", Metric::requests, LimitKind::sliding, 0)}) {
    const QuotaOutThere back = model_quota_of(quota({closed}));
    EXPECT_FALSE(back.is_known);
    ASSERT_EQ(back.left_out.size(), 1U);
    EXPECT_NE(back.left_out[0].text.find("will allow what this limit refuses"), std::string::npos);
  }
}

TEST(ModelQuota, without_limits_is_unlimited_there_too) {
  EXPECT_TRUE(model_quota_of(quota({})).is_known);
  EXPECT_FALSE(model_quota_of(quota({limit("c", Metric::cost, LimitKind::fixed, 1)})).is_known);
}

TEST(ModelQuota, names_the_fields_that_the_library_lacks) {
  api::Quota ours = quota_of({.max_rpm = 1});
  ours.refund_expired = true;
  ours.overtakers_max = 2;
  const QuotaOutThere back = model_quota_of(ours);
  ASSERT_EQ(back.left_out.size(), 2U);
  EXPECT_EQ(back.left_out[0].place, "expired");
  EXPECT_EQ(back.left_out[1].place, "overtakers");
}

}  // namespace
}  // namespace sluice::migration
