// Goal: headers show limits in the formats of the draft, OpenAI and Anthropic. Method: limits made
// by hand, compared with whole header lines.
#include <gtest/gtest.h>

#include <string>

#include "wire/rest_quota.hpp"

namespace sluice::wire {
namespace {

api::LimitReport report(std::string_view name, api::Metric metric, uint64_t amount,
                        uint64_t remaining, int64_t reset_ms = 1'000) {
  api::LimitReport limit;
  limit.metric = metric;
  limit.kind =
      metric == api::Metric::concurrency ? api::LimitKind::concurrency : api::LimitKind::fixed;
  limit.name_bytes = static_cast<uint8_t>(name.copy(limit.name, sizeof limit.name));
  limit.amount = amount;
  limit.remaining = remaining;
  limit.period_ms = 60'000;
  limit.reset_ms = reset_ms;
  return limit;
}

std::string headers(const std::vector<api::LimitReport>& reports, RateStyle style,
                    int64_t wall_ns = 0) {
  std::vector<ReportedLimit> reported;
  for (const api::LimitReport& one : reports) reported.push_back({.subject = "m", .report = &one});
  return limit_headers(reported, style, wall_ns);
}

TEST(RestQuotaHeaders, writes_no_headers_without_limits) {
  EXPECT_EQ(headers({}, RateStyle::openai), "");
  api::LimitReport unlimited = report("a", api::Metric::requests, 0, 0);
  unlimited.ceiling = api::Ceiling::unlimited;
  EXPECT_EQ(headers({unlimited}, RateStyle::anthropic), "");
}

TEST(RestQuotaHeaders, writes_an_item_for_each_limit) {
  api::LimitReport block = report("b", api::Metric::cost, 5, 5, 0);
  block.ceiling = api::Ceiling::block;
  EXPECT_EQ(headers({report("rpm", api::Metric::requests, 10, 3, 1'001), block,
                     report("c", api::Metric::concurrency, 4, 1)},
                    RateStyle::plain),
            "RateLimit: \"rpm\";r=3;t=2, \"b\";r=0;t=0, \"c\";r=1\r\n"
            "RateLimit-Policy: \"rpm\";q=10;w=60, \"b\";q=0;w=60, \"c\";q=4\r\n");
}

TEST(RestQuotaHeaders, names_the_subject_when_there_are_several) {
  const api::LimitReport limit = report("n", api::Metric::requests, 1, 1);
  const std::vector<ReportedLimit> reported{{.subject = "{t}\"\xC3\xA9z", .report = &limit},
                                            {.subject = "b", .report = &limit}};
  EXPECT_EQ(limit_headers(reported, RateStyle::plain, 0),
            "RateLimit: \"{t}\\\"??z/n\";r=1;t=1, \"b/n\";r=1;t=1\r\n"
            "RateLimit-Policy: \"{t}\\\"??z/n\";q=1;w=60, \"b/n\";q=1;w=60\r\n");
}

TEST(RestQuotaHeaders, writes_the_sixteen_tightest_limits) {
  std::vector<api::LimitReport> limits;
  for (uint64_t i = 0; i < 20; ++i) {
    limits.push_back(
        report(std::string{"l"}.append(std::to_string(i)), api::Metric::requests, 100, 50 - i));
  }
  const std::string text = headers(limits, RateStyle::plain);
  EXPECT_EQ(text.find("\"l3\""), std::string::npos);
  EXPECT_NE(text.find("\"l4\""), std::string::npos);
}

TEST(RestQuotaHeaders, writes_the_limits_that_deny_before_tighter_ones) {
  std::vector<api::LimitReport> limits(16, report("tight", api::Metric::requests, 100, 1));
  limits.push_back(report("denies", api::Metric::tokens, 30'000, 500));
  limits.back().violated = true;
  const std::string text = headers(limits, RateStyle::plain);
  EXPECT_NE(text.find("RateLimit: \"denies\";r=500;t=1, \"tight\";r=1;t=1"), std::string::npos);
}

TEST(RestQuotaHeaders, a_metric_shows_the_limit_that_denies) {
  api::LimitReport denies = report("cached", api::Metric::tokens, 30'000, 500);
  denies.violated = true;
  const std::string text =
      headers({report("tpm", api::Metric::tokens, 9'000, 400), denies}, RateStyle::openai);
  EXPECT_NE(text.find("x-ratelimit-remaining-tokens: 500\r\n"), std::string::npos);
}

TEST(RestQuotaHeaders, cuts_numbers_to_fifteen_digits) {
  const std::string text =
      headers({report("a", api::Metric::tokens, INT64_MAX, INT64_MAX)}, RateStyle::plain);
  EXPECT_NE(text.find(";q=999999999999999;"), std::string::npos);
}

TEST(RestQuotaHeaders, writes_the_headers_of_openai) {
  const std::string text = headers({report("rpm", api::Metric::requests, 60, 59, 1'000),
                                    report("rpd", api::Metric::requests, 100, 40, 360'000),
                                    report("tpm", api::Metric::tokens, 30'000, 29'000, 20)},
                                   RateStyle::openai);
  EXPECT_EQ(text.substr(text.find("x-ratelimit")),
            "x-ratelimit-limit-requests: 100\r\nx-ratelimit-remaining-requests: 40\r\n"
            "x-ratelimit-reset-requests: 6m0s\r\nx-ratelimit-limit-tokens: 30000\r\n"
            "x-ratelimit-remaining-tokens: 29000\r\nx-ratelimit-reset-tokens: 20ms\r\n");
}

TEST(RestQuotaHeaders, writes_the_headers_of_anthropic) {
  constexpr int64_t wall_ns = 1'771'200'000'000'000'000;  // 2026-02-16T00:00:00Z
  const std::string text = headers({report("itpm", api::Metric::input_tokens, 10, 4, 59'001)},
                                   RateStyle::anthropic, wall_ns);
  EXPECT_EQ(text.substr(text.find("anthropic")),
            "anthropic-ratelimit-input-tokens-limit: 10\r\n"
            "anthropic-ratelimit-input-tokens-remaining: 4\r\n"
            "anthropic-ratelimit-input-tokens-reset: 2026-02-16T00:01:00Z\r\n");
}

TEST(RestQuotaHeaders, writes_durations_as_go_does) {
  EXPECT_EQ(duration_text(0), "0ms");
  EXPECT_EQ(duration_text(999), "999ms");
  EXPECT_EQ(duration_text(1'000), "1s");
  EXPECT_EQ(duration_text(1'050), "1.05s");
  EXPECT_EQ(duration_text(360'000), "6m0s");
  EXPECT_EQ(duration_text(3'723'500), "1h2m3.5s");
  EXPECT_EQ(duration_text(3'600'000), "1h0m0s");
}

}  // namespace
}  // namespace sluice::wire
