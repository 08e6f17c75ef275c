// Goal: a quota's JSON becomes its value and the value its JSON; all faults are reported, by limit
//       and field.
// Method: texts by example; every field with a value on either side of each bound.
#include "policy/quota_text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/limits.hpp"

namespace sluice::policy {
namespace {

using api::CalendarUnit;
using api::Ceiling;
using api::Limit;
using api::LimitKind;
using api::Metric;
using api::Quota;
using Complaints = std::vector<std::string>;

constexpr int64_t day_ms = 86'400'000;

Quota quota_of(std::string_view text) {
  const ParsedQuota parsed = parse_quota(text);
  EXPECT_EQ(parsed.complaints, Complaints{}) << text;
  return parsed.quota;
}

Complaints complaints_about_quota(std::string_view text) {
  const ParsedQuota parsed = parse_quota(text);
  EXPECT_EQ(parsed.quota, Quota{}) << "a bad quota is none";
  return parsed.complaints;
}

Limit limit_of(const std::string& fields) {
  const Quota quota = quota_of("{\"limits\": [{" + fields + "}]}");
  return quota.limits.size() == 1 ? quota.limits[0] : Limit{};
}

// The complaints about a limit named "l" with these fields, without its name.
Complaints complaints_about_limit(const std::string& fields) {
  const std::string limit = R"(limits[0] ("l"), )";
  Complaints complaints = complaints_about_quota(R"({"limits": [{"name": "l", )" + fields + "}]}");
  for (std::string& complaint : complaints) {
    EXPECT_TRUE(complaint.starts_with(limit)) << complaint;
    complaint.erase(0, limit.size());
  }
  return complaints;
}

const std::string requests_of_a_minute =
    R"("metric": "requests", "amount": 1, "period_ms": 60000, )";

Limit a_limit() {
  return {.name = "rpm", .metric = Metric::requests, .amount = 5, .period_ms = 60'000};
}

TEST(QuotaText, reads_every_field) {
  const Quota quota = quota_of(R"({
    "limits": [{"name": "tpm", "metric": "tokens", "amount": 30000, "period_ms": 60000,
                "kind": "fixed", "count_cached": true}],
    "expired": "refund", "overtakers": 7})");
  EXPECT_EQ(quota, (Quota{.limits = {{.name = "tpm",
                                      .metric = Metric::tokens,
                                      .kind = LimitKind::fixed,
                                      .ceiling = Ceiling::number,
                                      .amount = 30'000,
                                      .period_ms = 60'000,
                                      .unit = CalendarUnit::none,
                                      .time_zone = "",
                                      .count_cached = true}},
                          .refund_expired = true,
                          .overtakers_max = 7,
                          .profile = ""}));
}

TEST(QuotaText, uses_defaults_for_absent_fields) {
  const Quota quota = quota_of(R"({"limits": [], "expired": null, "overtakers": null})");
  EXPECT_EQ(quota, Quota{});
  EXPECT_EQ(quota_of(R"({"limits": [], "expired": "keep", "overtakers": 0})"), Quota{});
  EXPECT_EQ(
      limit_of(R"("name": "l", "metric": "cost", "amount": 0, "period_ms": 10, "kind": null)"),
      (Limit{.name = "l", .metric = Metric::cost, .amount = 0, .period_ms = 10}));
}

TEST(QuotaText, reads_every_metric) {
  for (uint32_t i = 0; i < api::metrics_count; ++i) {
    const auto metric = static_cast<Metric>(i);
    const std::string period = metric == Metric::concurrency ? "" : R"(, "period_ms": 1000)";
    const Limit limit = limit_of(R"("name": "l", "amount": 1, "metric": ")" +
                                 std::string{api::metric_name(metric)} + "\"" + period);
    EXPECT_EQ(limit.metric, metric);
  }
}

TEST(QuotaText, reads_every_kind) {
  const std::string start = R"("name": "l", "metric": "requests", "amount": 1, )";
  for (const auto kind : {LimitKind::fixed, LimitKind::sliding, LimitKind::gcra}) {
    const std::string word{api::kind_name(kind)};
    EXPECT_EQ(limit_of(start + R"("period_ms": 50, "kind": ")" + word + "\"").kind, kind);
  }
  for (const auto kind : {LimitKind::anchored_day, LimitKind::rolling_day}) {
    const std::string word = R"("kind": ")" + std::string{api::kind_name(kind)} + "\"";
    for (const std::string period : {"", R"(, "period_ms": 86400000)", R"(, "period_ms": null)"}) {
      const Limit limit = limit_of(start + word + period);
      EXPECT_EQ(limit.kind, kind);
      EXPECT_EQ(limit.period_ms, day_ms);
    }
  }
}

TEST(QuotaText, reads_every_unit_of_a_calendar) {
  for (const auto unit :
       {CalendarUnit::hour, CalendarUnit::day, CalendarUnit::week, CalendarUnit::month}) {
    const Limit limit = limit_of(
        R"("name": "l", "metric": "requests", "amount": 1, "kind": "calendar", "period": ")" +
        std::string{api::unit_name(unit)} + R"(", "time_zone": "Asia/Kathmandu")");
    EXPECT_EQ(limit.kind, LimitKind::calendar);
    EXPECT_EQ(limit.unit, unit);
    EXPECT_EQ(limit.period_ms, 0);
    EXPECT_EQ(limit.time_zone, "Asia/Kathmandu");
  }
  EXPECT_EQ(limit_of(R"("name": "l", "metric": "requests", "amount": 1, "kind": "calendar",
                        "period": "day")")
                .time_zone,
            "UTC");
}

TEST(QuotaText, reads_amounts_as_numbers_and_words) {
  const auto amount = [](const std::string& written) {
    return limit_of(R"("name": "l", "metric": "requests", "period_ms": 1000, "amount": )" +
                    written);
  };
  EXPECT_EQ(amount("0").ceiling, Ceiling::number);
  EXPECT_EQ(amount("0").amount, 0U);
  EXPECT_EQ(amount("9223372036854775807").amount, limits::amount_max);
  EXPECT_EQ(amount(R"("unlimited")").ceiling, Ceiling::unlimited);
  EXPECT_EQ(amount(R"("block")").ceiling, Ceiling::block);
}

TEST(QuotaText, reads_concurrency) {
  const Limit limit = limit_of(R"("name": "l", "metric": "concurrency", "amount": 4)");
  EXPECT_EQ(limit.kind, LimitKind::concurrency);
  EXPECT_EQ(limit.period_ms, 0);
}

TEST(QuotaText, refuses_kind_and_period_of_concurrency) {
  EXPECT_EQ(complaints_about_limit(R"("metric": "concurrency", "amount": 4, "kind": "fixed",
                                      "period_ms": 1000, "time_zone": "UTC", "period": "day")"),
            (Complaints{"kind: concurrency has none: leave it out",
                        "period_ms: concurrency has none: leave it out",
                        "period: is for \"kind\": \"calendar\"; others have period_ms",
                        "time_zone: is only for \"kind\": \"calendar\""}));
}

TEST(QuotaText, bounds_periods) {
  const std::string start = R"("metric": "requests", "amount": 1, "period_ms": )";
  const std::string bounds = "period_ms: must be a whole number from 10 to 31536000000, not ";
  for (const std::string good : {"10", "31536000000"}) {
    EXPECT_EQ(limit_of(R"("name": "l", )" + start + good).period_ms, std::stoll(good));
  }
  for (const std::string bad :
       {"9", "0", "-1", "31536000001", "18446744073709551616", "1000.0", "true", "\"1000\""}) {
    const Complaints complaints = complaints_about_limit(start + bad);
    ASSERT_EQ(complaints.size(), 1U) << bad;
    EXPECT_TRUE(complaints[0].starts_with(bounds)) << complaints[0];
  }
}

TEST(QuotaText, refuses_other_lengths_of_a_day) {
  EXPECT_EQ(complaints_about_limit(
                R"("metric": "requests", "amount": 1, "kind": "rolling_day", "period_ms": 1000)"),
            Complaints{"period_ms: of a day must be 86400000, or left out, not 1000"});
}

TEST(QuotaText, reports_complaints_about_calendars) {
  const std::string start = R"("metric": "requests", "amount": 1, "kind": "calendar")";
  EXPECT_EQ(complaints_about_limit(start),
            Complaints{"period: is missing: a calendar's is hour, day, week or month"});
  EXPECT_EQ(complaints_about_limit(start + R"(, "period": "year")"),
            Complaints{"period: must be hour, day, week or month, not \"year\""});
  EXPECT_EQ(
      complaints_about_limit(start + R"(, "period": "day", "period_ms": 86400000)"),
      Complaints{"period_ms: a calendar has none: set \"period\" to hour, day, week or month"});
  EXPECT_EQ(complaints_about_limit(start + R"(, "period": "day", "time_zone": "Mars/Olympus")"),
            Complaints{"time_zone: there is no \"Mars/Olympus\"; names are IANA's, such as "
                       "\"America/Los_Angeles\" (the system's package tzdata has them)"});
  EXPECT_EQ(complaints_about_limit(start + R"(, "period": "day", "time_zone": "")"),
            Complaints{"time_zone: must be a string that is not empty, not \"\""});
}

TEST(QuotaText, refuses_calendar_fields_of_other_kinds) {
  EXPECT_EQ(complaints_about_limit(requests_of_a_minute +
                                   R"("period": "day", "time_zone": "Asia/Kathmandu")"),
            (Complaints{"period: is for \"kind\": \"calendar\"; others have period_ms",
                        "time_zone: is only for \"kind\": \"calendar\""}));
}

TEST(QuotaText, bounds_amounts) {
  for (const std::string bad :
       {"-1", "9223372036854775808", "1.5", "1e3", "\"5\"", "\"Block\"", "true", "[]"}) {
    const Complaints complaints =
        complaints_about_limit(R"("metric": "requests", "period_ms": 1000, "amount": )" + bad);
    ASSERT_EQ(complaints.size(), 1U) << bad;
    EXPECT_TRUE(
        complaints[0].starts_with("amount: must be a whole number from 0 to "
                                  "9223372036854775807, \"unlimited\" or \"block\", not "))
        << complaints[0];
  }
}

TEST(QuotaText, lists_the_valid_words) {
  EXPECT_EQ(complaints_about_limit(R"("metric": "token", "amount": 1, "period_ms": 1000)"),
            Complaints{"metric: must be requests, input_tokens, output_tokens, tokens, cost or "
                       "concurrency, not \"token\""});
  EXPECT_EQ(complaints_about_limit(requests_of_a_minute + R"("kind": "concurrency")"),
            Complaints{"kind: must be fixed, sliding, gcra, anchored_day, rolling_day or calendar, "
                       "not \"concurrency\""});
}

TEST(QuotaText, refuses_missing_fields) {
  EXPECT_EQ(complaints_about_quota(R"({"limits": [{}]})"),
            (Complaints{"limits[0], name: is missing", "limits[0], metric: is missing",
                        "limits[0], amount: is missing"}));
  EXPECT_EQ(complaints_about_limit(R"("metric": "requests", "amount": 1)"),
            Complaints{"period_ms: is missing: the time over which the amount is allowed"});
  EXPECT_EQ(complaints_about_quota("{}"),
            Complaints{"limits: is missing; without limits it is \"limits\": []"});
}

TEST(QuotaText, bounds_names) {
  const std::string rest = R"(, "metric": "requests", "amount": 1, "period_ms": 1000)";
  const std::string longest(limits::limit_name_bytes_max, 'n');
  EXPECT_EQ(limit_of("\"name\": \"" + longest + "\"" + rest).name, longest);
  const Complaints complaints =
      complaints_about_quota("{\"limits\": [{\"name\": \"" + longest + "n\"" + rest + "}]}");
  ASSERT_EQ(complaints.size(), 1U);
  EXPECT_NE(complaints[0].find("name: must have 1 to 32 bytes, not 33"), std::string::npos);
  EXPECT_EQ(complaints_about_quota(R"({"limits": [{"name": "")" + rest + "}]}"),
            Complaints{"limits[0], name: must be a string that is not empty, not \"\""});
  EXPECT_EQ(complaints_about_quota(R"({"limits": [{"name": "a\nb")" + rest + "}]}"),
            Complaints{R"(limits[0] ("a\nb"), name: must be UTF-8 without control characters)"});
}

TEST(QuotaText, refuses_equal_names) {
  const std::string limit = R"({"name": "a", "metric": "requests", "amount": 1, "period_ms": 10})";
  EXPECT_EQ(complaints_about_quota("{\"limits\": [" + limit + ", " + limit + "]}"),
            Complaints{R"(limits[1] ("a"), name: is also the name of an earlier limit: names must )"
                       "differ"});
}

TEST(QuotaText, counts_cached_tokens_only_as_input) {
  for (const std::string metric : {"input_tokens", "tokens"}) {
    EXPECT_TRUE(limit_of(R"("name": "l", "amount": 1, "period_ms": 1000, "count_cached": true,
                            "metric": ")" +
                         metric + "\"")
                    .count_cached);
  }
  EXPECT_EQ(complaints_about_limit(requests_of_a_minute + R"("count_cached": true)"),
            Complaints{"count_cached: is only for input_tokens and tokens"});
  EXPECT_EQ(complaints_about_limit(requests_of_a_minute + R"("count_cached": 1)"),
            Complaints{"count_cached: must be true or false, not 1"});
}

TEST(QuotaText, refuses_more_than_16_limits) {
  const auto with = [](uint32_t count) {
    std::string limits;
    for (uint32_t i = 0; i < count; ++i) {
      limits += (i > 0 ? R"(, {"name": "l)" : R"({"name": "l)") + std::to_string(i) +
                R"(", "metric": "concurrency", "amount": 1})";
    }
    return "{\"limits\": [" + limits + "]}";
  };
  EXPECT_EQ(quota_of(with(limits::quota_limits_max)).limits.size(), limits::quota_limits_max);
  EXPECT_EQ(complaints_about_quota(with(limits::quota_limits_max + 1)),
            Complaints{"limits: has 17; at most 16 are allowed"});
}

TEST(QuotaText, bounds_the_fields_of_a_quota) {
  EXPECT_EQ(quota_of(R"({"limits": [], "overtakers": 1000})").overtakers_max, 1'000U);
  for (const std::string bad : {"1001", "-1", "true"}) {
    EXPECT_EQ(complaints_about_quota(R"({"limits": [], "overtakers": )" + bad + "}"),
              Complaints{"overtakers: must be a whole number from 0 to 1000, not " + bad});
  }
  EXPECT_EQ(complaints_about_quota(R"({"limits": [], "expired": true})"),
            Complaints{"expired: must be keep or refund, not true"});
  EXPECT_EQ(complaints_about_quota(R"({"limits": {}})"),
            Complaints{"limits: must be an array, not an object"});
  EXPECT_EQ(complaints_about_quota(R"({"limits": [7]})"),
            Complaints{"limits[0]: must be an object, not 7"});
}

TEST(QuotaText, refuses_unknown_fields) {
  EXPECT_EQ(complaints_about_quota(R"({"limits": [], "expires": "keep"})"),
            Complaints{R"("expires": no such field; there are limits, expired and overtakers)"});
  EXPECT_EQ(complaints_about_limit(requests_of_a_minute + R"("periodMs": 5)"),
            Complaints{R"("periodMs": no such field; there are name, metric, amount, period_ms, )"
                       "kind, period, time_zone and count_cached"});
}

TEST(QuotaText, ignores_the_fields_that_a_get_adds) {
  const std::string reported =
      R"json({"name": 7, "source": "file", "profile": "p (2026-02)", "expired": "keep",
          "overtakers": 0, "open_reservations": 2, "waiting": 1, "limits": [
          {"name": "rpm", "metric": "requests", "amount": 5, "period_ms": 60000,
           "kind": "sliding", "used": -1, "reserved": [], "remaining": null, "reset_ms": 3}]})json";
  EXPECT_EQ(quota_of(reported), Quota{.limits = {a_limit()}});
  EXPECT_EQ(complaints_about_quota(R"({"limits": [], "used": 1})"),
            Complaints{R"("used": no such field; there are limits, expired and overtakers)"});
  EXPECT_EQ(complaints_about_limit(requests_of_a_minute + R"("limit": 5)").size(), 1U)
      << "which of two names for one number counts?";
  Complaints complaints;
  read_quota(text::Json::parse(reported), "", {}, complaints);
  EXPECT_EQ(complaints.size(), 9U) << "in a file every field counts";
}

TEST(QuotaText, refuses_json_that_is_no_object) {
  EXPECT_EQ(complaints_about_quota("[]"),
            Complaints{"must be an object with \"limits\", not an array"});
  const Complaints complaints = complaints_about_quota("{\"limits\": [}");
  ASSERT_EQ(complaints.size(), 1U);
  EXPECT_TRUE(complaints[0].starts_with("not JSON, line 1, column 13")) << complaints[0];
}

TEST(QuotaText, reports_every_complaint_but_each_field_once) {
  EXPECT_EQ(complaints_about_quota(R"({"expired": 1, "limits": [
              {"name": "a", "metric": "requests", "amount": -1, "period_ms": 1},
              {"name": "b", "metric": "requests", "amount": 1, "kind": 5}]})"),
            (Complaints{"expired: must be keep or refund, not 1",
                        R"(limits[0] ("a"), amount: must be a whole number from 0 to )"
                        R"(9223372036854775807, "unlimited" or "block", not -1)",
                        R"(limits[0] ("a"), period_ms: must be a whole number from 10 to )"
                        "31536000000, not 1",
                        R"(limits[1] ("b"), kind: must be fixed, sliding, gcra, anchored_day, )"
                        "rolling_day or calendar, not 5"}));
}

TEST(QuotaText, ignores_the_fields_of_its_caller_and_names_its_place) {
  Complaints complaints;
  const std::string_view others[] = {"subject"};
  const text::Json object =
      text::Json::parse(R"({"subject": 5, "x": 1, "limits": [{"name": "a"}]})");
  read_quota(object, "subjects[2]", others, complaints);
  EXPECT_EQ(complaints,
            (Complaints{"subjects[2], \"x\": no such field; there are subject, limits, expired and "
                        "overtakers",
                        R"(subjects[2], limits[0] ("a"), metric: is missing)",
                        R"(subjects[2], limits[0] ("a"), amount: is missing)"}))
      << "in the order of the text";
}

TEST(QuotaText, sets_defaults_in_a_quota_of_a_frame) {
  Quota quota{.limits = {a_limit(), a_limit(), a_limit()}};
  quota.limits[1] = {.name = "day", .kind = LimitKind::anchored_day, .amount = 1};
  quota.limits[2] = {.name = "month",
                     .kind = LimitKind::calendar,
                     .ceiling = Ceiling::block,
                     .amount = 7,
                     .unit = CalendarUnit::month};
  EXPECT_EQ(check_quota(quota), Complaints{});
  EXPECT_EQ(quota.limits[0], a_limit());
  EXPECT_EQ(quota.limits[1].period_ms, day_ms);
  EXPECT_EQ(quota.limits[2].time_zone, "UTC");
  EXPECT_EQ(quota.limits[2].amount, 0U);
}

TEST(QuotaText, checks_a_quota_of_a_frame_like_a_text) {
  Quota quota{.limits = {a_limit(), a_limit(), a_limit(), a_limit()}, .overtakers_max = 1'001};
  quota.limits[1].metric = Metric::concurrency;
  quota.limits[2].kind = LimitKind::concurrency;
  quota.limits[2].name = "\xff";
  quota.limits[3] = {.name = "", .kind = LimitKind::fixed, .amount = 1ULL << 63, .period_ms = 10};
  EXPECT_EQ(
      check_quota(quota),
      (Complaints{R"(limits[1] ("rpm"), kind: concurrency has none: leave it out)",
                  R"(limits[1] ("rpm"), period_ms: concurrency has none: leave it out)",
                  "limits[2] (\"\\xff\"), name: must be UTF-8 without control characters",
                  "limits[2] (\"\\xff\"), kind: kind concurrency needs metric concurrency",
                  "limits[3], name: must have 1 to 32 bytes, not 0",
                  "limits[3], amount: must be at most 9223372036854775807",
                  R"(limits[1] ("rpm"), name: is also the name of an earlier limit: names must )"
                  "differ",
                  "overtakers: must be a whole number from 0 to 1000, not 1001"}));
  quota.limits.assign(17, a_limit());
  EXPECT_EQ(check_quota(quota), Complaints{"limits: has 17; at most 16 are allowed"});
}

TEST(QuotaText, reads_written_text_back_as_the_same_quota) {
  const std::string text =
      R"({"limits":[)"
      R"({"name":"rpm","metric":"requests","amount":5,"period_ms":60000,"kind":"sliding"},)"
      R"({"name":"tpd","metric":"tokens","amount":"unlimited","period_ms":86400000,)"
      R"("kind":"rolling_day","count_cached":true},)"
      R"({"name":"slots","metric":"concurrency","amount":4},)"
      R"({"name":"bill","metric":"cost","amount":"block","kind":"calendar","period":"month",)"
      R"("time_zone":"Europe/Berlin"}],)"
      R"("expired":"refund","overtakers":3})";
  EXPECT_EQ(text::one_line(quota_json(quota_of(text))), text);
  EXPECT_EQ(text::one_line(quota_json({})), R"({"limits":[]})");
}

TEST(QuotaText, of_another_node_may_have_time_zones_that_this_machine_lacks) {
  const std::string limit = R"({"limits": [{"name": "l", "metric": "requests", "amount": 1, )";
  const std::string unknown =
      limit + R"("kind": "calendar", "period": "day", "time_zone": "Mars/Olympus"}]})";
  const ParsedQuota sent = parse_quota(unknown, Form::sent);
  EXPECT_EQ(sent.complaints, Complaints{});
  ASSERT_EQ(sent.quota.limits.size(), 1U);
  EXPECT_EQ(sent.quota.limits[0].time_zone, "Mars/Olympus");
  EXPECT_FALSE(has_time_zones(sent.quota));
  EXPECT_EQ(parse_quota(unknown).complaints.size(), 1U);
  Quota checked = sent.quota;
  EXPECT_EQ(check_quota(checked).size(), 1U);
  // Whatever else is wrong is wrong there, too.
  EXPECT_EQ(parse_quota(limit + R"("kind": "calendar"}]})", Form::sent).complaints.size(), 1U);
  EXPECT_EQ(parse_quota(limit + R"("period_ms": 1000, "time_zone": "Mars/Olympus"}]})", Form::sent)
                .complaints,
            Complaints{R"(limits[0] ("l"), time_zone: is only for "kind": "calendar")"});
}

TEST(QuotaText, knows_which_quotas_have_their_time_zones) {
  EXPECT_TRUE(has_time_zones({.limits = {a_limit()}, .profile = {}}));
  Limit limit = a_limit();
  limit.kind = LimitKind::calendar;
  limit.period_ms = 0;
  limit.unit = CalendarUnit::day;
  for (const char* const zone : {"UTC", "Asia/Kathmandu"}) {
    limit.time_zone = zone;
    EXPECT_TRUE(has_time_zones({.limits = {limit}, .profile = {}})) << zone;
  }
  Limit unknown = limit;
  unknown.time_zone = "Mars/Olympus";
  EXPECT_FALSE(has_time_zones({.limits = {limit, unknown}, .profile = {}}));
}

}  // namespace
}  // namespace sluice::policy
