// Goal: a query's parameters are found by name; those that cannot be read are noted, not lost.
// Method: queries of an endpoint that ignores unknown parameters, and of one that refuses them.
#include "wire/rest_query.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "wire/rest_endpoint.hpp"

namespace sluice::wire {
namespace {

// Keeps what the views of `query` point into.
struct Read {
  std::string text;
  std::vector<char> memory;
  RestQuery query;
};

Read read(std::string text, std::string_view path) {
  Read result{.text = std::move(text), .memory = {}, .query = {}};
  result.memory.resize(result.text.size());
  DecodeBuffer buffer{result.memory};
  result.query = read_query(result.text, find_endpoint(path).endpoint, buffer);
  return result;
}

std::set<std::string> names_of(const RestEndpoint& endpoint) {
  std::set<std::string> names;
  std::string_view rest = endpoint.parameters;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(", "), rest.size());
    names.emplace(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return names;
}

// The number of parameters that were given.
std::ptrdiff_t count_given(const RestQuery& query) {
  return std::ranges::count_if(query_parameters(), [&query](const NamedParameter& named) {
    return (query.*named.parameter).was_given;
  });
}

TEST(RestQuery, has_a_member_for_every_name_of_every_endpoint) {
  for (const RestEndpoint& endpoint : rest_endpoints()) {
    for (const std::string& name : names_of(endpoint)) {
      const Read one = read(name + "=x", endpoint.route);
      EXPECT_EQ(count_given(one.query), 1) << endpoint.route << " " << name;
      EXPECT_EQ(one.query.unknown_parameter, "") << endpoint.route << " " << name;
    }
  }
}

TEST(RestQuery, has_no_parameter_without_an_endpoint) {
  std::set<std::string> names;
  for (const RestEndpoint& endpoint : rest_endpoints()) names.merge(names_of(endpoint));
  for (const NamedParameter& named : query_parameters()) {
    EXPECT_TRUE(names.contains(std::string(named.name))) << named.name;
  }
  EXPECT_EQ(names.size(), query_parameters().size());
}

TEST(RestQuery, has_each_parameter_by_its_name) {
  const Read all = read(
      "canWait=a&maxRequests=b&maxRequestsInQueue=c&cost=d&maxWaitMillis=e&windowMillis=f&pretty=g"
      "&prefix=h&limit=i&keys=j&cursor=k&headers=l&subject=m&dry_run=n",
      "/rate/k");
  std::string values;
  for (const QueryParameter& parameter :
       {all.query.can_wait, all.query.max_requests, all.query.max_requests_in_queue, all.query.cost,
        all.query.max_wait_ms, all.query.window_ms, all.query.pretty, all.query.prefix,
        all.query.limit, all.query.keys, all.query.cursor, all.query.headers, all.query.subject,
        all.query.dry_run}) {
    EXPECT_TRUE(parameter.was_given);
    values += parameter.value;
  }
  EXPECT_EQ(values, "abcdefghijklmn");
}

TEST(RestQuery, decodes_all_values_and_trims_all_but_a_subject) {
  const Read one = read("co%73t=%2B7+&subject=+a%2Fb+", "/rate/k");
  EXPECT_EQ(one.query.cost.value, "+7");
  EXPECT_EQ(one.query.subject.value, " a/b ");
}

TEST(RestQuery, distinguishes_given_and_present) {
  const Read one = read("pretty&cost=%20", "/debug");
  EXPECT_TRUE(one.query.pretty.was_given);
  EXPECT_FALSE(one.query.pretty.is_present());
  EXPECT_FALSE(one.query.cost.is_present());
  EXPECT_FALSE(one.query.keys.was_given);
}

TEST(RestQuery, keeps_the_first_of_repeated_parameters) {
  const Read one = read("cost=1&cost=2", "/rate/k");
  EXPECT_EQ(one.query.cost.value, "1");
  EXPECT_EQ(one.query.invalid_parameter, "cost");
}

TEST(RestQuery, notes_parameters_of_other_endpoints_under_v1) {
  EXPECT_EQ(read("limit=1&cost=2", "/v1/subjects").query.unknown_parameter, "cost");
  EXPECT_FALSE(read("cost=2", "/v1/subjects").query.cost.was_given);
  EXPECT_EQ(read("limit=1&cost=2", "/rate/k").query.unknown_parameter, "");
}

TEST(RestQuery, reads_a_query_of_an_unknown_path) {
  EXPECT_TRUE(read("pretty", "/no").query.pretty.was_given);
}

}  // namespace
}  // namespace sluice::wire
