// Goal: every path leads to its own row with its own methods, and no other path is an endpoint.
// Method: paths in a table; each row is compared with the results of the functions over it.
#include "wire/rest_endpoint.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace sluice::wire {
namespace {

// "/v1/reserve" or "/rate/:key/:id k 7".
std::string cut(std::string_view path) {
  const PathMatch match = find_endpoint(path);
  if (match.endpoint == nullptr) return "none";
  std::string text(match.endpoint->route);
  if (!match.key.empty()) text.append(" ").append(match.key);
  if (!match.id.empty()) text.append(" ").append(match.id);
  return text;
}

std::set<std::string_view> methods_of(const RestEndpoint& endpoint) {
  std::set<std::string_view> methods;
  for (const RestOperation& operation : endpoint.operations) {
    if (operation.method != RestMethod::none) methods.insert(method_name(operation.method));
  }
  return methods;
}

TEST(RestEndpoint, finds_a_row_by_its_path) {
  for (const RestEndpoint& endpoint : rest_endpoints()) {
    EXPECT_EQ(find_endpoint(endpoint.route).endpoint, &endpoint) << endpoint.route;
  }
}

TEST(RestEndpoint, takes_one_segment_as_the_key_of_rate) {
  EXPECT_EQ(cut("/rate/k"), "/rate/:key k");
  EXPECT_EQ(cut("/rate/k%2Fl"), "/rate/:key k%2Fl");
  EXPECT_EQ(cut("/rate/k/7"), "/rate/:key/:id k 7");
  EXPECT_EQ(cut("/rate/k/7/8/"), "/rate/:key/:id k 7/8/");
  EXPECT_EQ(cut("/rate//5"), "/rate/:key/:id 5");
}

TEST(RestEndpoint, takes_the_rest_of_the_path_as_text) {
  EXPECT_EQ(cut("/debug/a/b/"), "/debug/:key a/b/");
  EXPECT_EQ(cut("/debug//"), "/debug/:key /");
  EXPECT_EQ(cut("/v1/subjects/a"), "/v1/subjects/:key a");
  EXPECT_EQ(cut("/v1/subjects/openai/gpt"), "/v1/subjects/:key openai/gpt");
  EXPECT_EQ(cut("/v1/subjects/:key"), "/v1/subjects/:key :key");
  EXPECT_EQ(cut("/v1/subjects//"), "/v1/subjects/:key /");
  EXPECT_EQ(cut("/v1/reservations"), "/v1/reservations");
  EXPECT_EQ(cut("/v1/reservations/00ff"), "/v1/reservations/:id 00ff");
  EXPECT_EQ(cut("/v1/reservations/a/b"), "/v1/reservations/:id a/b");
}

TEST(RestEndpoint, does_not_ignore_extra_or_missing_slashes) {
  for (const char* path : {"",
                           "*",
                           "/",
                           "/rate",
                           "/rate/",
                           "/rate/k/",
                           "/rate//",
                           "/ratek",
                           "/debug/",
                           "/debugk",
                           "/healthz/",
                           "/metrics/x",
                           "/top/",
                           "/openapi.json/",
                           "/v1",
                           "/v1/",
                           "/v1/subject",
                           "/v1/subjects/",
                           "/v1/subjectsa",
                           "/v1/reservations/",
                           "/v1/reservation",
                           "/v1/reserve/",
                           "/v1/Reserve",
                           "/v1/reset_all",
                           "/v1/reset-all/x"}) {
    EXPECT_EQ(cut(path), "none") << path;
  }
}

TEST(RestEndpoint, lists_its_methods_in_allow) {
  for (const RestEndpoint& endpoint : rest_endpoints()) {
    std::string allow = "OPTIONS";
    for (const RestOperation& operation : endpoint.operations) {
      if (operation.method == RestMethod::none) break;
      allow.append(", ").append(method_name(operation.method));
    }
    EXPECT_EQ(allowed_methods(endpoint), allow);
    const auto methods = methods_of(endpoint);
    EXPECT_FALSE(methods.empty()) << endpoint.route;
    for (const std::string_view method :
         {"", "GET", "PUT", "DELETE", "POST", "PATCH", "HEAD", "OPTIONS", "get"}) {
      EXPECT_EQ(has_method(endpoint, method), methods.contains(method))
          << endpoint.route << " " << method;
    }
  }
}

TEST(RestEndpoint, takes_the_parameters_of_its_row) {
  const RestEndpoint& rate = *find_endpoint("/rate/k").endpoint;
  EXPECT_TRUE(takes_parameter(rate, "canWait"));
  EXPECT_TRUE(takes_parameter(rate, "maxWaitMillis"));
  for (const char* name : {"", "canwait", "maxRequests, cost", "max", "dry_run"}) {
    EXPECT_FALSE(takes_parameter(rate, name)) << name;
  }
  EXPECT_FALSE(takes_parameter(*find_endpoint("/healthz").endpoint, ""));
}

// An endpoint without a dry run refuses it when it reads the body, with a message of its own.
TEST(RestEndpoint, takes_dry_run_under_v1) {
  for (const RestEndpoint& endpoint : rest_endpoints()) {
    EXPECT_EQ(takes_parameter(endpoint, "dry_run"), endpoint.quota != QuotaEndpoint::none)
        << endpoint.route;
  }
}

TEST(RestEndpoint, finds_an_endpoint_of_quotas_by_its_number) {
  for (const RestEndpoint& endpoint : rest_endpoints()) {
    const bool is_below_v1 = endpoint.route.starts_with("/v1/");
    EXPECT_EQ(endpoint.quota != QuotaEndpoint::none, is_below_v1) << endpoint.route;
    if (!is_below_v1) continue;
    EXPECT_EQ(&quota_endpoint(endpoint.quota), &endpoint);
  }
}

}  // namespace
}  // namespace sluice::wire
