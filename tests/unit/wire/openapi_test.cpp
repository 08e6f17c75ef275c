// Goal: the description names every endpoint under /v1/ with its methods and fields, and no other.
// Method: its paths and the schemas of its bodies are held against the routes and against what the
// reader of bodies says that it takes.
#include "wire/openapi.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "wire/rest_endpoint.hpp"
#include "wire/rest_quota.hpp"

namespace sluice::wire {
namespace {

using Json = nlohmann::json;

const Json& document() {
  static const Json parsed = Json::parse(openapi_text());
  return parsed;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

// As the description writes paths.
std::string described_path(std::string_view route) {
  std::string path(route);
  for (const auto& [part, name] : {std::pair{":key", "{name}"}, std::pair{":id", "{id}"}}) {
    const size_t begin = path.find(part);
    if (begin != path.npos) path.replace(begin, path.npos, name);
  }
  return path;
}

TEST(Openapi, is_of_a_version_that_tools_know) {
  EXPECT_EQ(document()["openapi"], "3.1.0");
}

// Those under /v1/: all that is described so far.
std::vector<const RestEndpoint*> described_endpoints() {
  std::vector<const RestEndpoint*> endpoints;
  for (const RestEndpoint& endpoint : rest_endpoints()) {
    if (endpoint.quota != QuotaEndpoint::none) endpoints.push_back(&endpoint);
  }
  return endpoints;
}

// "GET /v1/subjects listSubjects"
std::string line_of(std::string_view method, std::string_view path, std::string_view id) {
  return std::string(method).append(" ").append(path).append(" ").append(id);
}

TEST(Openapi, has_the_operations_of_every_endpoint_and_no_other) {
  std::set<std::string> operations;
  for (const RestEndpoint* endpoint : described_endpoints()) {
    for (const auto& [method, id] : endpoint->operations) {
      if (method == RestMethod::none) break;
      operations.insert(line_of(method_name(method), described_path(endpoint->route), id));
    }
  }
  std::set<std::string> described;
  for (const auto& [path, item] : document()["paths"].items()) {
    for (const auto& [method, operation] : item.items()) {
      if (method == "parameters") continue;  // of all its operations
      described.insert(line_of(upper(method), path, operation["operationId"].get<std::string>()));
    }
  }
  EXPECT_EQ(described, operations);
}

// The fields that a body of this endpoint may have, as its reader complains.
std::set<std::string> taken_fields(QuotaEndpoint endpoint) {
  const auto read = read_quota_request({.endpoint = endpoint, .method = "POST"},
                                       R"({"no such field": 1})", QuotaOptions{});
  std::string detail = std::get<QuotaProblem>(read).detail;
  std::set<std::string> fields;
  std::string list = detail.substr(detail.find("this takes ") + 11);
  if (list == "no fields") return fields;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(", ", begin), list.size());
    fields.insert(list.substr(begin, end - begin));
    begin = end + 2;
  }
  return fields;
}

TEST(Openapi, names_every_field_of_a_body_and_no_other) {
  for (const RestEndpoint* endpoint : described_endpoints()) {
    if (!has_method(*endpoint, "POST") || taken_fields(endpoint->quota).empty()) continue;
    const Json& body = document()["paths"][std::string(endpoint->route)]["post"]["requestBody"]
                                 ["content"]["application/json"]["schema"];
    const std::string name = body["$ref"].get<std::string>().substr(21);  // #/components/schemas/
    const Json& schema = document()["components"]["schemas"][name];
    std::set<std::string> described;
    if (schema.contains("properties")) {
      for (const auto& [field, type] : schema["properties"].items()) described.insert(field);
    }
    EXPECT_EQ(described, taken_fields(endpoint->quota)) << endpoint->route;
    EXPECT_EQ(schema["additionalProperties"], false) << name;
  }
}

TEST(Openapi, shows_bodies_that_are_read) {
  for (const RestEndpoint* endpoint : described_endpoints()) {
    for (const char* method : {"post", "put"}) {
      const Json& path = document()["paths"][described_path(endpoint->route)];
      if (!path.contains(method) || !path[method].contains("requestBody")) continue;
      const Json& example = path[method]["requestBody"]["content"]["application/json"]["example"];
      ASSERT_TRUE(example.is_object()) << endpoint->route;
      const std::string verb = upper(method);
      const auto read = read_quota_request(
          {.endpoint = endpoint->quota, .method = verb, .subject = "gpt"}, example.dump(), {});
      EXPECT_TRUE(std::holds_alternative<QuotaRequest>(read)) << endpoint->route << example;
    }
  }
}

// Every "$ref" below leads to something.
void check_references(const Json& json) {
  if (json.is_array()) {
    for (const Json& item : json) check_references(item);
  }
  if (!json.is_object()) return;
  for (const auto& [name, value] : json.items()) {
    if (name == "$ref") {
      const Json::json_pointer target{value.get<std::string>().substr(1)};
      EXPECT_TRUE(document().contains(target)) << value;
    } else {
      check_references(value);
    }
  }
}

TEST(Openapi, refers_to_what_is_there) {
  check_references(document());
}

}  // namespace
}  // namespace sluice::wire
