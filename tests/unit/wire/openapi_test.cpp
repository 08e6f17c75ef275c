// Goal: openapi.json describes every endpoint with its methods, parameters and fields, and nothing
// else; docs/rest.md names every operation.
// Method: paths, operations and parameters are compared with the table of endpoints, the schemas of
// bodies with the fields that the reader of bodies lists in its complaint.
#include "wire/openapi.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/support/source_folder.hpp"
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

// A path without the names of its parameters: "/rate/:/:" of "/rate/:key/:id", and of
// "/rate/{key}/{requestId}" as the description writes it.
std::string shape_of(std::string_view path) {
  std::string shape;
  bool in_name = false;
  for (const char c : path) {
    const bool begins = c == ':' || c == '{';
    if (begins) shape.push_back(':');
    in_name = begins || (in_name && c != '/');
    if (!in_name) shape.push_back(c);
  }
  return shape;
}

// The description's path item of an endpoint.
const Json& item_of(const RestEndpoint& endpoint) {
  for (const auto& [path, item] : document()["paths"].items()) {
    if (shape_of(path) == shape_of(endpoint.route)) return item;
  }
  static const Json none = Json::object();
  return none;
}

TEST(Openapi, has_a_version_that_tools_support) {
  EXPECT_EQ(document()["openapi"], "3.1.0");
}

// "GET /v1/subjects listSubjects"
std::string line_of(std::string_view method, std::string_view path, std::string_view id) {
  return std::string(method).append(" ").append(path).append(" ").append(id);
}

TEST(Openapi, has_the_operations_of_every_endpoint_and_no_other) {
  std::set<std::string> operations;
  for (const RestEndpoint& endpoint : rest_endpoints()) {
    for (const auto& [method, id] : endpoint.operations) {
      if (method == RestMethod::none) break;
      operations.insert(line_of(method_name(method), shape_of(endpoint.route), id));
    }
  }
  std::set<std::string> described;
  for (const auto& [path, item] : document()["paths"].items()) {
    for (const auto& [method, operation] : item.items()) {
      if (method == "parameters") continue;  // shared by all operations
      const auto id = operation["operationId"].get<std::string>();
      described.insert(line_of(upper(method), shape_of(path), id));
    }
  }
  EXPECT_EQ(described, operations);
}

// The target of a "$ref".
const Json& resolved(const Json& json) {
  if (!json.contains("$ref")) return json;
  return document()[Json::json_pointer(json["$ref"].get<std::string>().substr(1))];
}

// The query parameters of all methods of a path.
std::set<std::string> described_parameters(const RestEndpoint& endpoint) {
  std::set<std::string> names;
  for (const auto& [method, operation] : item_of(endpoint).items()) {
    if (!operation.contains("parameters")) continue;
    for (const Json& parameter : operation["parameters"]) {
      const Json& described = resolved(parameter);
      if (described["in"] == "query") names.insert(described["name"].get<std::string>());
    }
  }
  return names;
}

TEST(Openapi, has_the_query_parameters_of_every_endpoint_and_no_other) {
  for (const RestEndpoint& endpoint : rest_endpoints()) {
    const std::set<std::string> described = described_parameters(endpoint);
    for (const std::string& name : described) {
      EXPECT_TRUE(takes_parameter(endpoint, name)) << endpoint.route << " " << name;
    }
    std::string_view rest = endpoint.parameters;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(", "), rest.size());
      const std::string name(rest.substr(0, end));
      // All endpoints under /v1/ take it; it is described where an answer shows limits.
      if (name != "headers") {
        EXPECT_TRUE(described.contains(name)) << endpoint.route << " " << name;
      }
      rest.remove_prefix(std::min(end + 2, rest.size()));
    }
  }
}

// As docs/rest.md writes it: "PUT /v1/subjects/NAME".
std::string documented(std::string_view method, std::string_view route) {
  std::string path(route);
  const bool is_quota = route.starts_with("/v1/");
  const std::pair<std::string_view, const char*> names[] = {
      {":key", is_quota ? "NAME" : ":key"}, {":id", is_quota ? "ID" : ":requestId"}};
  for (const auto& [part, name] : names) {
    const size_t begin = path.find(part);
    if (begin != path.npos) path.replace(begin, part.size(), name);
  }
  return std::string("`").append(method).append(" ").append(path);
}

TEST(Openapi, has_the_same_operations_as_the_manual) {
  std::ifstream file(test::source_folder() / "docs" / "rest.md");
  const std::string manual{std::istreambuf_iterator<char>(file), {}};
  for (const RestEndpoint& endpoint : rest_endpoints()) {
    for (const auto& [method, id] : endpoint.operations) {
      if (method == RestMethod::none) break;
      const std::string text = documented(method_name(method), endpoint.route);
      EXPECT_NE(manual.find(text), manual.npos) << text;
    }
  }
}

// The fields that a body of this endpoint may have, by the complaint of its reader.
std::set<std::string> taken_fields(QuotaEndpoint endpoint) {
  const auto read = read_quota_request({.endpoint = endpoint, .method = "POST"},
                                       R"({"no such field": 1})", QuotaOptions{});
  std::string detail = std::get<QuotaProblem>(read).detail;
  std::set<std::string> fields;
  const std::string_view before = "there are ";
  std::string list = detail.substr(detail.find(before) + before.size());
  if (list == "none") return fields;
  if (const size_t last = list.rfind(" and "); last != list.npos) list.replace(last, 5, ", ");
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(", ", begin), list.size());
    fields.insert(list.substr(begin, end - begin));
    begin = end + 2;
  }
  return fields;
}

TEST(Openapi, names_every_field_of_a_body_and_no_other) {
  for (const RestEndpoint& endpoint : rest_endpoints()) {
    const bool is_posted = endpoint.quota != QuotaEndpoint::none && has_method(endpoint, "POST");
    if (!is_posted || taken_fields(endpoint.quota).empty()) continue;
    const Json& body =
        item_of(endpoint)["post"]["requestBody"]["content"]["application/json"]["schema"];
    const std::string name = body["$ref"].get<std::string>().substr(21);  // #/components/schemas/
    const Json& schema = document()["components"]["schemas"][name];
    std::set<std::string> described;
    if (schema.contains("properties")) {
      for (const auto& [field, type] : schema["properties"].items()) described.insert(field);
    }
    EXPECT_EQ(described, taken_fields(endpoint.quota)) << endpoint.route;
    EXPECT_EQ(schema["additionalProperties"], false) << name;
  }
}

TEST(Openapi, has_examples_that_the_reader_accepts) {
  for (const RestEndpoint& endpoint : rest_endpoints()) {
    for (const char* method : {"post", "put"}) {
      const Json& path = item_of(endpoint);
      if (!path.contains(method) || !path[method].contains("requestBody")) continue;
      const Json& example = path[method]["requestBody"]["content"]["application/json"]["example"];
      ASSERT_TRUE(example.is_object()) << endpoint.route;
      const std::string verb = upper(method);
      const auto read = read_quota_request(
          {.endpoint = endpoint.quota, .method = verb, .subject = "gpt"}, example.dump(), {});
      EXPECT_TRUE(std::holds_alternative<QuotaRequest>(read)) << endpoint.route << example;
    }
  }
}

// Checks that every "$ref" below has a target.
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

TEST(Openapi, has_a_target_for_every_reference) {
  check_references(document());
}

}  // namespace
}  // namespace sluice::wire
