// Goal: every path and method has the meaning that it has in gocc, as amended by docs/rest.md.
// Method: one request line per row, compared with its answer or entry.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/wire/routed_request.hpp"
#include "wire/http_codec.hpp"

namespace sluice::wire {
namespace {

TEST(HttpCodecRoute, finds_its_resources) {
  EXPECT_EQ(answer("GET", "/rate/k"), "acquire k");
  EXPECT_EQ(answer("POST", "/rate/k"), "acquire k");
  EXPECT_EQ(answer("DELETE", "/rate/k/7"), "release k");
  EXPECT_EQ(answer("DELETE", "/rate/k/a/b"), "release k");
  EXPECT_EQ(answer("GET", "/debug"), "debug");
  EXPECT_EQ(answer("GET", "/debug/k"), "inspect k");
  EXPECT_EQ(answer("GET", "/healthz"), "health");
  EXPECT_EQ(answer("GET", "/metrics"), "metrics");
  EXPECT_EQ(answer("GET", "/top"), "top 20");
  EXPECT_EQ(answer("GET", "/openapi.json"), "openapi");
}

TEST(HttpCodecRoute, has_all_nodes_answer_if_there_are_several) {
  const RestOptions several{.has_other_nodes = true};
  for (const std::string target :
       {"/debug?cluster=true", "/debug/k?cluster=true&pretty", "/top?keys=3&cluster=true",
        "/v1/subjects?cluster=true", "/v1/reservations?limit=5&cluster=true"}) {
    EXPECT_EQ(answer("GET", target, several), "all nodes GET " + target);
    EXPECT_FALSE(answer("GET", target).starts_with("all nodes")) << target;
  }
  EXPECT_EQ(answer("POST", "/v1/reset-all?cluster=true", several),
            "all nodes POST /v1/reset-all?cluster=true");
  EXPECT_EQ(answer("DELETE", "/debug?cluster=true", several), not_allowed);
  for (const char* value : {"", "false", "1", "TRUE"}) {
    EXPECT_EQ(answer("GET", std::string("/debug?cluster=") + value, several), "debug") << value;
  }
  EXPECT_EQ(answer("GET", "/v1/subjects?cluster=true&cursor=0", several),
            "400 cursor with cluster=true: ask one node for its next page");
}

// What the owner of a key answers anyway, and what concerns one process.
TEST(HttpCodecRoute, has_no_other_request_answered_by_all_nodes) {
  const RestOptions several{.has_other_nodes = true};
  EXPECT_EQ(answer("POST", "/rate/k?cluster=true", several), "acquire k");
  EXPECT_EQ(answer("GET", "/metrics?cluster=true", several), "metrics");
  EXPECT_EQ(answer("GET", "/healthz?cluster=true", several), "health");
  EXPECT_EQ(answer("GET", "/v1/subjects/a?cluster=true", several), "quota a");
}

TEST(HttpCodecRoute, answers_options_of_the_whole_server) {
  EXPECT_EQ(answer("OPTIONS", "*"), "200 ");
  for (const char* method : {"GET", "POST", "DELETE"}) EXPECT_EQ(answer(method, "*"), not_found);
}

TEST(HttpCodecRoute, answers_404_for_other_paths) {
  for (const char* path : {"/", "/rate", "/rate/", "/rate/k/", "/rate//", "/debug/", "/healthz/",
                           "/metrics/", "/Rate/k", "/RATE/k", "//rate/k", "/ratek", "/rates/k",
                           "/r%61te/k", "/debug%2Fk", "/healthz/x", "/top/", "/v1"}) {
    for (const char* method : {"GET", "POST", "DELETE", "OPTIONS", "PUT"}) {
      EXPECT_EQ(answer(method, path), not_found) << method << " " << path;
    }
    const auto reply = route("GET", path);
    EXPECT_EQ(reply->reply()->content_type, "application/json");
    EXPECT_EQ(reply->reply()->allow, "");
    EXPECT_EQ(answer("HEAD", path), "404 ") << path;
  }
}

TEST(HttpCodecRoute, lists_the_methods_of_a_resource) {
  struct Row {
    const char* path;
    const char* allow;
    std::vector<const char*> refused;
  };
  const std::vector<Row> rows{
      {"/rate/k", "OPTIONS, GET, POST, DELETE", {"PUT", "PATCH", "get", "TRACE", "G"}},
      {"/rate/k/7", "OPTIONS, DELETE", {"GET", "POST", "PUT", "delete"}},
      {"/rate/a/b/c", "OPTIONS, DELETE", {"GET", "POST"}},
      {"/debug", "OPTIONS, GET", {"POST", "DELETE"}},
      {"/debug/k", "OPTIONS, GET", {"POST", "DELETE"}},
      {"/healthz", "OPTIONS, GET", {"POST", "DELETE"}},
      {"/metrics", "OPTIONS, GET", {"POST", "DELETE"}},
      {"/top", "OPTIONS, GET", {"POST", "DELETE"}},
      {"/openapi.json", "OPTIONS, GET", {"POST"}},
      {"/v1/subjects", "OPTIONS, GET", {"POST", "PUT", "DELETE"}},
      {"/v1/subjects/a/b", "OPTIONS, GET, PUT, DELETE", {"POST", "PATCH"}},
      {"/v1/reserve", "OPTIONS, POST", {"GET", "PUT", "DELETE"}},
      {"/v1/reservations", "OPTIONS, GET", {"POST", "PUT", "DELETE"}},
      {"/v1/reservations/a", "OPTIONS, GET", {"POST", "PUT", "DELETE"}},
  };
  for (const Row& row : rows) {
    for (const char* method : row.refused) {
      EXPECT_EQ(answer(method, row.path), not_allowed) << method << " " << row.path;
      const auto routed = route(method, row.path);
      EXPECT_EQ(routed->reply()->allow, row.allow) << method << " " << row.path;
      EXPECT_EQ(routed->reply()->content_type, "application/json");
    }
    const auto options = route("OPTIONS", row.path);
    EXPECT_EQ(options->reply()->status, 204);
    EXPECT_EQ(options->reply()->allow, row.allow);
    EXPECT_EQ(options->reply()->body, "");
    EXPECT_EQ(options->reply()->content_type, "");
    const auto head = route("HEAD", row.path);
    EXPECT_EQ(head->reply()->status, 405);
    EXPECT_EQ(head->reply()->allow, row.allow);
    EXPECT_EQ(head->reply()->body, "");
    EXPECT_EQ(head->reply()->content_type, "");
  }
}

TEST(HttpCodecRoute, shows_routing_errors_pretty_when_asked) {
  EXPECT_EQ(answer("GET", "/nope?pretty"), "404 {\n  \"message\": \"Not Found\"\n}\n");
  EXPECT_EQ(answer("PUT", "/debug?pretty=0"), "405 {\n  \"message\": \"Method Not Allowed\"\n}\n");
}

TEST(HttpCodecRoute, decodes_each_segment_once) {
  EXPECT_EQ(answer("GET", "/rate/user%20x"), "acquire user x");
  EXPECT_EQ(answer("GET", "/rate/a+b"), "acquire a+b");
  EXPECT_EQ(answer("GET", "/rate/%C3%A5"), "acquire \xC3\xA5");
  EXPECT_EQ(answer("GET", "/rate/%c3%a5"), "acquire \xC3\xA5");
  EXPECT_EQ(answer("GET", "/rate/\xC3\xA5"), "acquire \xC3\xA5");
  EXPECT_EQ(answer("GET", "/rate/a%2Fb"), "acquire a/b");
  EXPECT_EQ(answer("GET", "/rate/a%2fb"), "acquire a/b");
  EXPECT_EQ(answer("GET", "/rate/%41"), "acquire A");
  EXPECT_EQ(answer("GET", "/rate/a!b"), "acquire a!b");
  EXPECT_EQ(answer("GET", "/rate/a%21b"), "acquire a!b");
  EXPECT_EQ(answer("GET", "/rate/%2541"), "acquire %41");
  EXPECT_EQ(answer("GET", "/rate/a%3Fb?cost=1"), "acquire a?b");
  EXPECT_EQ(answer("GET", "/rate/%FF"), "acquire \xFF");
  EXPECT_EQ(answer("GET", "/rate/..;a=b,c@d"), "acquire ..;a=b,c@d");
  EXPECT_EQ(answer("DELETE", "/rate/a%2Fb/5"), "release a/b");
  EXPECT_EQ(answer("GET", "/debug/a%2Fb"), "inspect a/b");
  EXPECT_EQ(answer("GET", "/debug/a/b%20c/"), "inspect a/b c/");
}

TEST(HttpCodecRoute, keeps_a_nul_in_a_key) {
  EXPECT_EQ(answer("GET", "/rate/a%00b"), std::string("acquire a\0b", 11));
}

TEST(HttpCodecRoute, refuses_invalid_escapes_anywhere_in_the_path) {
  for (const char* path : {"/rate/%zz", "/rate/%", "/rate/a%4", "/rate/%4g", "/nope%", "/debug/%x1",
                           "/rate/k/%1", "/%ra/te"}) {
    EXPECT_EQ(answer("GET", path), "400 400 Bad Request") << path;
    EXPECT_EQ(route("GET", path)->reply()->content_type, "text/plain; charset=utf-8");
  }
}

TEST(HttpCodecRoute, returns_the_route_of_a_path) {
  const auto names = [](std::string_view target) {
    const RestPath path = path_of(target);
    return std::string{path.route} + " " + std::string{path.key} + " " + std::string{path.id};
  };
  EXPECT_EQ(names("/rate/a%20b?x=/"), "/rate/:key a%20b ");
  EXPECT_EQ(names("/rate/a/b/c"), "/rate/:key/:id a b/c");
  EXPECT_EQ(names("/debug?pretty"), "/debug  ");
  EXPECT_EQ(names("/debug/a/b"), "/debug/:key a/b ");
  EXPECT_EQ(names("/healthz"), "/healthz  ");
  EXPECT_EQ(names("/metrics"), "/metrics  ");
  EXPECT_EQ(names("/top?keys=5"), "/top  ");
  EXPECT_EQ(names("/v1/subjects/a%20b/c?x"), "/v1/subjects/:key a%20b/c ");
  EXPECT_EQ(names("/openapi.json"), "/openapi.json  ");
  EXPECT_EQ(names("/v1/reset-all"), "/v1/reset-all  ");
  for (const char* target : {"", "*", "/", "/rate/", "/rate/k/", "/no"}) {
    EXPECT_EQ(names(target), "  ") << target;
  }
}

TEST(HttpCodecRoute, fits_a_buffer_as_long_as_the_target) {
  std::string target = "/rate/";
  for (int i = 0; i < 200; ++i) target += "%41";
  target += "/%42?";
  for (int i = 0; i < 200; ++i) target += "%63ost=%31&maxRequests=%31&";
  const auto routed = route("DELETE", target);
  ASSERT_NE(routed->decision(), nullptr);
  EXPECT_EQ(routed->decision()->entry.key(), std::string(200, 'A'));
}

}  // namespace
}  // namespace sluice::wire
