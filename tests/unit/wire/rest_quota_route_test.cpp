// Goal: every path under /v1/ is its own endpoint with its own methods, and nothing else is one.
// Method: paths in a table.
#include "wire/rest_quota_route.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::wire {
namespace {

// "reserve" or "subject a/b".
std::string cut(std::string_view path) {
  const QuotaPath quota = cut_quota_path(path);
  if (quota.endpoint == QuotaEndpoint::none) return "none";
  std::string text(quota_endpoint_info(quota.endpoint).route);
  if (!quota.key.empty()) text.append(" ").append(quota.key);
  return text;
}

TEST(RestQuotaRoute, finds_every_endpoint_by_its_path) {
  for (const QuotaEndpointInfo& info : quota_endpoints()) {
    EXPECT_EQ(cut_quota_path(info.route).endpoint, info.endpoint) << info.route;
  }
}

TEST(RestQuotaRoute, takes_all_behind_subjects_for_a_name) {
  EXPECT_EQ(cut("/v1/subjects/a"), "/v1/subjects/:key a");
  EXPECT_EQ(cut("/v1/subjects/openai/gpt"), "/v1/subjects/:key openai/gpt");
  EXPECT_EQ(cut("/v1/subjects/:key"), "/v1/subjects/:key :key");
  EXPECT_EQ(cut("/v1/subjects//"), "/v1/subjects/:key /");
}

TEST(RestQuotaRoute, takes_all_behind_reservations_for_an_id) {
  EXPECT_EQ(cut("/v1/reservations"), "/v1/reservations");
  EXPECT_EQ(cut("/v1/reservations/00ff"), "/v1/reservations/:id 00ff");
  EXPECT_EQ(cut("/v1/reservations/a/b"), "/v1/reservations/:id a/b");
}

TEST(RestQuotaRoute, forgives_no_slash_too_many_or_too_few) {
  for (const char* path :
       {"/v1", "/v1/", "/v1/subject", "/v1/subjects/", "/v1/subjectsa", "/v1/reservations/",
        "/v1/reservation", "/v1/reserve/", "/v1/Reserve", "/v1/reset_all", "/v1/reset-all/x"}) {
    EXPECT_EQ(cut(path), "none") << path;
  }
}

TEST(RestQuotaRoute, allows_the_methods_that_it_names) {
  for (const QuotaEndpointInfo& info : quota_endpoints()) {
    for (const std::string_view method : {"GET", "PUT", "DELETE", "POST", "PATCH", "HEAD"}) {
      const bool is_named = info.methods.find(method) != std::string_view::npos;
      EXPECT_EQ(has_quota_method(info.endpoint, method), is_named) << info.route << method;
    }
    EXPECT_NE(info.methods.find("OPTIONS"), std::string_view::npos);
  }
  EXPECT_FALSE(has_quota_method(QuotaEndpoint::none, "GET"));
}

}  // namespace
}  // namespace sluice::wire
