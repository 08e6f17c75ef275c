// Goal: every path, method and parameter is understood as gocc understands it, as amended by
// docs/rest.md. Method: one request line per row, compared with the answer or the entry it gives.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "wire/http_codec.hpp"

namespace sluice::wire {
namespace {

// One routed request; keeps what its views point into.
struct Routed {
  std::string target;
  std::vector<char> buffer;
  RestRequest request;

  const RestReply* reply() const { return std::get_if<RestReply>(&request); }
  const RestDecision* decision() const { return std::get_if<RestDecision>(&request); }
  const RestInspect* inspect() const { return std::get_if<RestInspect>(&request); }
  const RestQuota* quota() const { return std::get_if<RestQuota>(&request); }
};

std::unique_ptr<Routed> route(std::string_view method, std::string_view target,
                              const RestOptions& options = {}, std::string_view accept = {}) {
  auto routed = std::make_unique<Routed>();
  routed->target = target;
  routed->buffer.resize(target.size());
  const HttpRequest request{.method = method, .target = routed->target, .accept = accept};
  routed->request = route_request(request, options, routed->buffer);
  return routed;
}

// "200 text" or what else became of it.
std::string answer(std::string_view method, std::string_view target,
                   const RestOptions& options = {}) {
  const auto routed = route(method, target, options);
  if (const RestReply* reply = routed->reply()) {
    return std::to_string(reply->status) + " " + std::string(reply->body);
  }
  if (const RestDecision* decision = routed->decision()) {
    const char* op = decision->entry.op == api::Op::acquire ? "acquire " : "release ";
    return op + std::string(decision->entry.key());
  }
  if (const RestInspect* inspect = routed->inspect()) return "inspect " + std::string(inspect->key);
  if (std::holds_alternative<RestDebug>(routed->request)) return "debug";
  if (std::holds_alternative<RestHealth>(routed->request)) return "health";
  if (std::holds_alternative<RestOpenapi>(routed->request)) return "openapi";
  if (const RestQuota* quota = routed->quota()) {
    return std::string{"quota "}.append(quota->subject);
  }
  if (const auto* top = std::get_if<RestTop>(&routed->request)) {
    return std::string{"top "}.append(std::to_string(top->keys_max));
  }
  return "metrics";
}

api::Entry entry(std::string_view query) {
  const auto routed = route("POST", "/rate/k?" + std::string(query));
  EXPECT_NE(routed->decision(), nullptr) << query;
  return routed->decision() == nullptr ? api::Entry{} : routed->decision()->entry;
}

bool is_refused(std::string_view query) {
  return route("POST", "/rate/k?" + std::string(query))->reply() != nullptr;
}

constexpr const char* not_found = "404 {\"message\":\"Not Found\"}\n";
constexpr const char* not_allowed = "405 {\"message\":\"Method Not Allowed\"}\n";

TEST(HttpCodecRoute, knows_its_resources) {
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

TEST(HttpCodecRoute, takes_a_subject_as_it_is_written) {
  EXPECT_EQ(answer("GET", "/v1/subjects/k"), "quota k");
  EXPECT_EQ(answer("PUT", "/v1/subjects/openai/gpt%2F5"), "quota openai/gpt/5");
  EXPECT_EQ(answer("DELETE", "/v1/subjects/%20a+b%20"), "quota  a+b ");
  EXPECT_EQ(answer("GET", "/v1/subjects"), "quota ");
  EXPECT_EQ(answer("POST", "/v1/reserve"), "quota ");
  EXPECT_EQ(answer("GET", "/v1/subjects/"), "404 {\"message\":\"Not Found\"}\n");
}

TEST(HttpCodecRoute, takes_a_reservation_for_no_subject) {
  const auto shown = route("GET", "/v1/reservations/00000a5d1c2e9f03?subject=a");
  EXPECT_EQ(shown->quota()->endpoint, QuotaEndpoint::reservation);
  EXPECT_EQ(shown->quota()->reservation, "00000a5d1c2e9f03");
  EXPECT_EQ(shown->quota()->subject, "");
  EXPECT_FALSE(shown->quota()->by_subject);
}

TEST(HttpCodecRoute, tells_the_first_field_that_an_endpoint_of_quotas_does_not_have) {
  const auto unknown = [](const std::string& query) {
    return std::string(route("PUT", "/v1/subjects/m" + query)->quota()->unknown_field);
  };
  EXPECT_EQ(unknown(""), "");
  EXPECT_EQ(unknown("?"), "");
  EXPECT_EQ(unknown("?headers=openai&&dry%5Frun=true"), "");
  EXPECT_EQ(unknown("?dry-run=true"), "dry-run");
  EXPECT_EQ(unknown("?headers=openai&%44ryRun=true&x=1"), "DryRun");
  EXPECT_EQ(unknown("?limit=1"), "limit");
  EXPECT_EQ(unknown("?canWait=true"), "canWait");
  EXPECT_EQ(unknown("?x=1;dry_run=true"), "x=1;dry_run=true");
  EXPECT_EQ(unknown("?dry_run%zz=true"), "dry_run%zz=true");
  EXPECT_EQ(unknown("?=true"), "=true");
  EXPECT_EQ(unknown("?%FF=1"), "\xFF");
  EXPECT_EQ(route("GET", "/v1/reservations?subject=m&cursor=0&limit=1&headers=openai")
                ->quota()
                ->unknown_field,
            "");
}

TEST(HttpCodecRoute, tells_what_is_unclear_in_a_query_for_quotas) {
  const auto unclear = [](const std::string& query) {
    return std::string(route("GET", "/v1/reservations" + query)->quota()->unclear_field);
  };
  EXPECT_EQ(unclear("?subject=m&limit=1"), "");
  EXPECT_EQ(unclear("?subject=%zz"), "subject");
  EXPECT_EQ(unclear("?cursor=%zz"), "cursor");
  EXPECT_EQ(unclear("?limit=1&limit=1"), "limit");
  EXPECT_EQ(unclear("?dry_run=false&dry_run=true"), "dry_run");
}

TEST(HttpCodecRoute, hands_on_what_a_quotas_query_says) {
  const auto page = route("GET", "/v1/subjects?cursor=0f&limit=%207&headers=openai");
  EXPECT_EQ(page->quota()->endpoint, QuotaEndpoint::subjects);
  EXPECT_EQ(page->quota()->method, "GET");
  EXPECT_EQ(page->quota()->cursor, "0f");
  EXPECT_EQ(page->quota()->limit, "7");
  EXPECT_EQ(page->quota()->headers, "openai");
  EXPECT_FALSE(page->quota()->by_subject);
  const auto holders = route("GET", "/v1/reservations?limit=7&subject=+a%2Fb%20&subject=c");
  EXPECT_EQ(holders->quota()->endpoint, QuotaEndpoint::reservations);
  EXPECT_EQ(holders->quota()->subject, " a/b ");
  EXPECT_TRUE(holders->quota()->by_subject);
  EXPECT_EQ(holders->quota()->limit, "7");
  EXPECT_TRUE(route("GET", "/v1/reservations?subject=")->quota()->by_subject);
  EXPECT_FALSE(route("GET", "/v1/reservations")->quota()->by_subject);
  HttpRequest request{.method = "POST", .target = "/v1/check"};
  request.rate_style = "anthropic";
  std::vector<char> buffer(request.target.size());
  const RestRequest check = route_request(request, {}, buffer);
  EXPECT_EQ(std::get<RestQuota>(check).rate_style, "anthropic");
}

// Whoever says it wants nothing to change.
TEST(HttpCodecRoute, takes_no_dry_run_for_none) {
  const auto dry_run = [](const std::string& query) {
    return route("POST", "/v1/reset-all" + query)->quota()->dry_run;
  };
  EXPECT_EQ(dry_run(""), DryRun::absent);
  EXPECT_EQ(dry_run("?dry_run=true"), DryRun::yes);
  EXPECT_EQ(dry_run("?headers=openai&dry%5Frun=tru%65"), DryRun::yes);
  EXPECT_EQ(dry_run("?dry_run=false"), DryRun::no);
  for (const char* unclear : {"?dry_run", "?dry_run=", "?dry_run=1", "?dry_run=True"}) {
    EXPECT_EQ(dry_run(unclear), DryRun::unclear) << unclear;
  }
}

TEST(HttpCodecRoute, top_has_a_bounded_number_of_keys) {
  EXPECT_EQ(answer("GET", "/top?keys=1"), "top 1");
  EXPECT_EQ(answer("GET", "/top?keys=100"), "top 100");
  EXPECT_EQ(answer("GET", "/top?keys=101"), "400 keys out of bounds");
  EXPECT_EQ(answer("GET", "/top?keys=0"), "400 keys out of bounds");
  EXPECT_EQ(answer("GET", "/top?keys=ten"), "400 failed to parse keys query parameter");
}

TEST(HttpCodecRoute, options_of_the_whole_server) {
  EXPECT_EQ(answer("OPTIONS", "*"), "200 ");
  for (const char* method : {"GET", "POST", "DELETE"}) EXPECT_EQ(answer(method, "*"), not_found);
}

TEST(HttpCodecRoute, knows_nothing_else) {
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

TEST(HttpCodecRoute, names_the_methods_a_resource_has) {
  struct Row {
    const char* path;
    const char* allow;
    std::vector<const char*> refused;
  };
  const std::vector<Row> rows{
      {"/rate/k", "OPTIONS, GET, POST", {"DELETE", "PUT", "PATCH", "get", "TRACE", "G"}},
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

TEST(HttpCodecRoute, trims_unicode_white_space_from_keys) {
  const std::vector<std::string> spaces{
      "%20",       "%09",       "%0A",       "%0b",       "%0C",          "%0D",
      "%C2%85",    "%C2%A0",    "%E1%9A%80", "%E2%80%80", "%E2%80%8A",    "%E2%80%A8",
      "%E2%80%A9", "%E2%80%AF", "%E2%81%9F", "%E3%80%80", "\xE3\x80\x80", "%20%E2%80%83%09"};
  for (const std::string& space : spaces) {
    EXPECT_EQ(answer("GET", "/rate/" + space + "a%20b" + space), "acquire a b") << space;
    EXPECT_EQ(answer("GET", "/debug/" + space + "a" + space), "inspect a") << space;
    EXPECT_EQ(answer("GET", "/rate/" + space), "400 empty key provided") << space;
    EXPECT_EQ(answer("DELETE", "/rate/k/" + space), "400 empty id provided") << space;
    EXPECT_EQ(answer("GET", "/debug/" + space), "404 Key not found") << space;
  }
}

TEST(HttpCodecRoute, trims_nothing_else) {
  for (const char* other : {"\xE2\x80\x8B", "\xE2\x80", "\x85", "\xA0", "\xC2", "\xEF\xBB\xBF",
                            "\xE1\xA0\x8E", "\xE2\x81\xA0"}) {
    const std::string key = std::string(other) + "a" + other;
    EXPECT_EQ(answer("GET", "/rate/" + key), "acquire " + key);
  }
}

TEST(HttpCodecRoute, refuses_empty_keys_and_ids) {
  EXPECT_EQ(answer("DELETE", "/rate//5"), "400 empty key provided");
  EXPECT_EQ(answer("DELETE", "/rate/%20/5"), "400 empty key provided");
  EXPECT_EQ(answer("DELETE", "/rate/%20/%20"), "400 empty key provided");
  EXPECT_EQ(answer("DELETE", "/rate/k/%20"), "400 empty id provided");
  EXPECT_EQ(answer("DELETE", "/rate/k/"), not_found);
  EXPECT_EQ(answer("DELETE", "/rate/k"), not_allowed);
}

TEST(HttpCodecRoute, refuses_long_keys) {
  const RestOptions options{.key_bytes_max = 4};
  EXPECT_EQ(answer("GET", "/rate/abcd", options), "acquire abcd");
  EXPECT_EQ(answer("GET", "/rate/%61bcd%20", options), "acquire abcd");
  EXPECT_EQ(answer("GET", "/rate/abcde", options), "431 key too long (--max-key-bytes)");
  EXPECT_EQ(answer("GET", "/rate/abcde?canWait=x", options), "431 key too long (--max-key-bytes)");
  EXPECT_EQ(answer("DELETE", "/rate/abcde/1", options), "431 key too long (--max-key-bytes)");
  EXPECT_EQ(answer("GET", "/debug/abcde", options), "404 Key not found");
}

TEST(HttpCodecRoute, asks_for_one_permit_by_default) {
  for (const char* query : {"", "&", "&&=&", "canWait=", "canWait=%20&cost=+&maxRequests=%C2%A0",
                            "other=1", "canWait", "ik=true", "CANWAIT=1&Cost=7"}) {
    const api::Entry plain = entry(query);
    EXPECT_EQ(plain.op, api::Op::acquire) << query;
    EXPECT_EQ(plain.cost, 1u) << query;
    EXPECT_EQ(plain.flags, api::flag::wants_details | api::flag::shows_id) << query;
    EXPECT_EQ(plain.max_requests, api::keep) << query;
    EXPECT_EQ(plain.max_requests_in_queue, api::keep) << query;
    EXPECT_EQ(plain.wait_ms_max, 0u) << query;
    EXPECT_EQ(plain.ticket, api::no_ticket) << query;
  }
}

TEST(HttpCodecRoute, reads_all_parameters) {
  const api::Entry all =
      entry("cost=7&maxRequestsInQueue=8&maxRequests=9&maxWaitMillis=10&canWait=true");
  EXPECT_EQ(all.cost, 7u);
  EXPECT_EQ(all.max_requests_in_queue, 8u);
  EXPECT_EQ(all.max_requests, 9u);
  EXPECT_EQ(all.wait_ms_max, 10u);
  EXPECT_TRUE(all.flags & api::flag::may_wait);
}

TEST(HttpCodecRoute, releases_what_the_cost_says) {
  const auto routed = route("DELETE", "/rate/k/7?cost=5");
  ASSERT_NE(routed->decision(), nullptr);
  EXPECT_EQ(routed->decision()->entry.op, api::Op::release);
  EXPECT_EQ(routed->decision()->entry.cost, 5u);
  EXPECT_EQ(routed->decision()->entry.flags, 0);
  EXPECT_EQ(answer("DELETE", "/rate/k/7?cost=x"), "400 failed to parse cost query parameter");
  EXPECT_EQ(answer("DELETE", "/rate/k/7?cost=0"), "400 cost out of bounds");
  EXPECT_EQ(answer("DELETE", "/rate/k/7?maxRequests=x&canWait=x"), "release k");
}

TEST(HttpCodecRoute, knows_the_words_for_yes_and_no) {
  for (const char* word : {"1", "t", "T", "TRUE", "true", "True"}) {
    EXPECT_TRUE(entry("canWait=" + std::string(word)).flags & api::flag::may_wait) << word;
  }
  for (const char* word : {"0", "f", "F", "FALSE", "false", "False", "%20"}) {
    EXPECT_FALSE(entry("canWait=" + std::string(word)).flags & api::flag::may_wait) << word;
  }
  for (const char* word : {"yes", "no", "tRUE", "2", "01", "on", "y", "truee", "-1"}) {
    EXPECT_EQ(answer("GET", "/rate/k?canWait=" + std::string(word)),
              "400 failed to parse canWait query parameter");
  }
}

TEST(HttpCodecRoute, reads_numbers_as_go_does) {
  EXPECT_EQ(entry("cost=%2B5").cost, 5u);
  EXPECT_EQ(entry("cost=0000000000000000000000000000000005").cost, 5u);
  EXPECT_EQ(entry("cost=%20+5%C2%A0").cost, 5u);
  EXPECT_EQ(entry("cost=%35").cost, 5u);
  EXPECT_EQ(entry("c%6Fst=5").cost, 5u);
  EXPECT_EQ(entry("maxWaitMillis=-0").wait_ms_max, 0u);
  for (const char* text : {"x", "5x", "0x5", "1_000", "1e3", "5.0", "--5", "-", "%2B", "5%205",
                           "2147483648", "-2147483649", "99999999999999999999", "%D9%A3"}) {
    EXPECT_EQ(answer("GET", "/rate/k?cost=" + std::string(text)),
              "400 failed to parse cost query parameter")
        << text;
  }
  EXPECT_EQ(answer("GET", "/rate/k?cost=2147483647"), "400 cost out of bounds");
  EXPECT_EQ(answer("GET", "/rate/k?cost=-2147483648"), "400 cost out of bounds");
}

TEST(HttpCodecRoute, counts_the_first_of_repeated_parameters) {
  EXPECT_EQ(entry("cost=5&cost=6").cost, 5u);
  EXPECT_EQ(entry("cost=&cost=6").cost, 1u);
  EXPECT_EQ(entry("cost&cost=6").cost, 1u);
  EXPECT_EQ(entry("cost=5&cost=x").cost, 5u);
  EXPECT_TRUE(is_refused("cost=x&cost=5"));
}

TEST(HttpCodecRoute, drops_the_pairs_that_go_drops) {
  EXPECT_EQ(entry("cost=%zz&cost=6").cost, 6u);
  EXPECT_EQ(entry("cost=5%&cost=6").cost, 6u);
  EXPECT_EQ(entry("cost=5;x=1&cost=6").cost, 6u);
  EXPECT_EQ(entry("cost=5;&x").cost, 1u);
  EXPECT_EQ(entry("c%6st=5").cost, 1u);
}

struct Check {
  const char* query;
  const char* answer;
  bool can_set_rate = true;
  bool can_mod_queue = true;
};

// The order of the checks, each against the next ones.
TEST(HttpCodecRoute, checks_in_order) {
  const std::vector<Check> checks{
      {"canWait=x&maxRequests=x&maxRequestsInQueue=x&cost=x&maxWaitMillis=x",
       "400 failed to parse canWait query parameter", false, false},
      {"maxRequests=x&maxRequestsInQueue=x&cost=x&maxWaitMillis=x",
       "400 failed to parse maxRequests query parameter", false, false},
      {"maxRequests=2147483648", "400 failed to parse maxRequests query parameter", false, false},
      {"maxRequests=0&maxRequestsInQueue=x", "403 maxRequests query parameter is disabled", false,
       false},
      {"maxRequests=0&maxRequestsInQueue=x&cost=x",
       "400 failed to parse maxRequestsInQueue query parameter", true, false},
      {"maxRequests=0&maxRequestsInQueue=-1&cost=x",
       "403 maxRequestsInQueue query parameter is disabled", true, false},
      {"maxRequests=0&maxRequestsInQueue=-1&cost=x", "400 maxRequests out of bounds"},
      {"maxRequests=1&maxRequestsInQueue=-1&cost=x", "400 maxRequestsInQueue out of bounds"},
      {"maxRequests=1000000001", "400 maxRequests out of bounds"},
      {"maxRequests=-1", "400 maxRequests out of bounds"},
      {"maxRequests=-1000000000", "400 maxRequests out of bounds"},
      {"maxRequests=-1000000000", "403 maxRequests query parameter is disabled", false, true},
      {"maxRequestsInQueue=-1000000000", "400 maxRequestsInQueue out of bounds"},
      {"maxRequestsInQueue=1000000001", "400 maxRequestsInQueue out of bounds"},
      {"cost=x&maxWaitMillis=x", "400 failed to parse cost query parameter", false, false},
      {"cost=0&maxWaitMillis=x", "400 failed to parse maxWaitMillis query parameter"},
      {"cost=0&maxWaitMillis=-1", "400 cost out of bounds"},
      {"cost=-1", "400 cost out of bounds"},
      {"cost=1000000001", "400 cost out of bounds"},
      {"cost=1&maxWaitMillis=-1", "400 maxWaitMillis out of bounds"},
      {"maxWaitMillis=3600001", "400 maxWaitMillis out of bounds"},
      {"maxRequests=1&maxRequestsInQueue=0&cost=1&maxWaitMillis=0", "acquire k"},
      {"maxRequests=1000000000&maxRequestsInQueue=1000000000&cost=1000000000"
       "&maxWaitMillis=3600000",
       "acquire k"},
      {"maxRequests=%20&maxRequestsInQueue=", "acquire k", false, false},
  };
  for (const Check& check : checks) {
    const RestOptions options{.requests_can_set_rate = check.can_set_rate,
                              .requests_can_mod_queue = check.can_mod_queue};
    for (const char* method : {"GET", "POST"}) {
      EXPECT_EQ(answer(method, "/rate/k?" + std::string(check.query), options), check.answer)
          << check.query;
    }
    EXPECT_EQ(answer("POST", "/rate/%20?" + std::string(check.query), options),
              "400 empty key provided");
  }
}

TEST(HttpCodecRoute, answers_complaints_in_plain_text) {
  const auto routed = route("GET", "/rate/k?cost=x");
  EXPECT_EQ(routed->reply()->content_type, "text/plain; charset=UTF-8");
  EXPECT_EQ(routed->reply()->allow, "");
  EXPECT_FALSE(routed->reply()->json);
}

TEST(HttpCodecRoute, answers_complaints_in_json_when_asked) {
  const auto routed = route("GET", "/rate/k?cost=x", {}, "application/json");
  EXPECT_EQ(routed->reply()->content_type, "application/json");
  EXPECT_TRUE(routed->reply()->json);
}

TEST(HttpCodecRoute, notices_who_accepts_json) {
  const auto json = [](std::string_view accept) {
    return route("GET", "/rate/k", {}, accept)->decision()->json;
  };
  EXPECT_TRUE(json("application/json"));
  EXPECT_TRUE(json("Application/JSON"));
  EXPECT_TRUE(json("text/html, application/json;q=0.1"));
  EXPECT_TRUE(json("text/html,\tapplication/json ; charset=utf-8 ; q=1.0, */*"));
  EXPECT_FALSE(json(""));
  EXPECT_FALSE(json("*/*"));
  EXPECT_FALSE(json("application/*"));
  EXPECT_FALSE(json("text/plain"));
  EXPECT_FALSE(json("application/json-seq"));
  EXPECT_FALSE(json("xapplication/json"));
  EXPECT_FALSE(json("application/json;q=0"));
  EXPECT_FALSE(json("application/json; Q=0.000, */*"));
  EXPECT_FALSE(json(",,;;,"));
}

TEST(HttpCodecRoute, debug_takes_a_prefix_and_a_limit) {
  const auto asked = route("GET", "/debug?prefix=user%3A&limit=10&limit=x");
  EXPECT_EQ(std::get<RestDebug>(asked->request).prefix, "user:");
  EXPECT_EQ(std::get<RestDebug>(asked->request).keys_max, 10u);
  const auto all = route("GET", "/debug?prefix=&limit=%20");
  EXPECT_EQ(std::get<RestDebug>(all->request).prefix, "");
  EXPECT_EQ(std::get<RestDebug>(all->request).keys_max, limits::debug_keys_max);
  const auto refused = [](const std::string& limit) {
    const auto routed = route("GET", "/debug?limit=" + limit);
    const auto& reply = std::get<RestReply>(routed->request);
    EXPECT_EQ(reply.status, 400u);
    EXPECT_FALSE(reply.of_rate);
    return std::string{reply.body};
  };
  for (const char* limit : {"x", "1.5", "2147483648"}) {
    EXPECT_EQ(refused(limit), "failed to parse limit query parameter") << limit;
  }
  for (const char* limit : {"0", "-1", "1000000001"}) {
    EXPECT_EQ(refused(limit), "limit out of bounds") << limit;
  }
}

TEST(HttpCodecRoute, names_the_route_of_a_path) {
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

TEST(HttpCodecRoute, says_whether_a_rate_request_was_refused) {
  const auto refused = route("POST", "/rate/k?cost=0");
  EXPECT_TRUE(std::get<RestReply>(refused->request).of_rate);
  const auto unknown = route("POST", "/no");
  EXPECT_FALSE(std::get<RestReply>(unknown->request).of_rate);
}

TEST(HttpCodecRoute, shows_pretty_for_any_value) {
  for (const char* query : {"pretty", "pretty=", "pretty=false", "x=1&pretty=0", "%70retty"}) {
    const auto one = route("GET", "/debug/k?" + std::string(query));
    EXPECT_TRUE(one->inspect()->pretty) << query;
    const auto all = route("GET", "/debug?" + std::string(query));
    EXPECT_TRUE(std::get<RestDebug>(all->request).pretty) << query;
  }
  for (const char* query : {"", "Pretty", "pretty;", "pretty=%", "xpretty"}) {
    EXPECT_FALSE(route("GET", "/debug/k?" + std::string(query))->inspect()->pretty) << query;
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
