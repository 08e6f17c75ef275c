// Goal: the description names every endpoint under /v1/ with its methods and fields, and no other.
// Method: its paths and the schemas of its bodies are held against the routes and against what the
// reader of bodies says that it takes.
#include "wire/openapi.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

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

TEST(Openapi, names_every_route_and_no_other) {
  std::set<std::string> routes;
  for (const QuotaEndpointInfo& info : quota_endpoints()) {
    routes.insert(described_path(info.route));
  }
  std::set<std::string> described;
  for (const auto& [path, operations] : document()["paths"].items()) described.insert(path);
  EXPECT_EQ(described, routes);
}

TEST(Openapi, names_every_method_and_no_other) {
  for (const QuotaEndpointInfo& info : quota_endpoints()) {
    const Json& path = document()["paths"][described_path(info.route)];
    for (const char* method : {"get", "put", "post", "delete", "patch", "head"}) {
      EXPECT_EQ(path.contains(method), has_quota_method(info.endpoint, upper(method)))
          << method << " " << info.route;
    }
  }
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
  for (const QuotaEndpointInfo& info : quota_endpoints()) {
    if (!has_quota_method(info.endpoint, "POST") || taken_fields(info.endpoint).empty()) continue;
    const Json& body = document()["paths"][std::string(info.route)]["post"]["requestBody"]
                                 ["content"]["application/json"]["schema"];
    const std::string name = body["$ref"].get<std::string>().substr(21);  // #/components/schemas/
    const Json& schema = document()["components"]["schemas"][name];
    std::set<std::string> described;
    if (schema.contains("properties")) {
      for (const auto& [field, type] : schema["properties"].items()) described.insert(field);
    }
    EXPECT_EQ(described, taken_fields(info.endpoint)) << info.route;
    EXPECT_EQ(schema["additionalProperties"], false) << name;
  }
}

TEST(Openapi, shows_bodies_that_are_read) {
  for (const QuotaEndpointInfo& info : quota_endpoints()) {
    for (const char* method : {"post", "put"}) {
      const Json& path = document()["paths"][described_path(info.route)];
      if (!path.contains(method) || !path[method].contains("requestBody")) continue;
      const Json& example = path[method]["requestBody"]["content"]["application/json"]["example"];
      ASSERT_TRUE(example.is_object()) << info.route;
      const std::string verb = upper(method);
      const auto read = read_quota_request(
          {.endpoint = info.endpoint, .method = verb, .subject = "gpt"}, example.dump(), {});
      EXPECT_TRUE(std::holds_alternative<QuotaRequest>(read)) << info.route << example;
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
