// Goal: every key, id and parameter is read as gocc reads it, as amended by docs/rest.md.
// Method: one request line per row, routed, compared with its answer or entry.
#include "wire/rest_reader.hpp"

#include <gtest/gtest.h>

#include <array>

#include <memory>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "tests/unit/wire/routed_request.hpp"

namespace sluice::wire {
namespace {

RestDecision decision(std::string_view query) {
  const auto routed = route("POST", "/rate/k?" + std::string(query));
  EXPECT_NE(routed->decision(), nullptr) << query;
  return routed->decision() == nullptr ? RestDecision{} : *routed->decision();
}

api::Entry entry(std::string_view query) {
  return decision(query).entry;
}

bool is_refused(std::string_view query) {
  return route("POST", "/rate/k?" + std::string(query))->reply() != nullptr;
}

TEST(RestReader, does_not_trim_a_subject) {
  EXPECT_EQ(answer("GET", "/v1/subjects/k"), "quota k");
  EXPECT_EQ(answer("PUT", "/v1/subjects/openai/gpt%2F5"), "quota openai/gpt/5");
  EXPECT_EQ(answer("DELETE", "/v1/subjects/%20a+b%20"), "quota  a+b ");
  EXPECT_EQ(answer("GET", "/v1/subjects"), "quota ");
  EXPECT_EQ(answer("POST", "/v1/reserve"), "quota ");
  EXPECT_EQ(answer("GET", "/v1/subjects/"), "404 {\"message\":\"Not Found\"}\n");
}

TEST(RestReader, distinguishes_reservation_and_subject) {
  const auto shown = route("GET", "/v1/reservations/00000a5d1c2e9f03?subject=a");
  EXPECT_EQ(shown->quota()->endpoint, QuotaEndpoint::reservation);
  EXPECT_EQ(shown->quota()->reservation, "00000a5d1c2e9f03");
  EXPECT_EQ(shown->quota()->subject, "");
  EXPECT_FALSE(shown->quota()->by_subject);
}

TEST(RestReader, notes_the_first_unknown_parameter_under_v1) {
  const auto unknown = [](const std::string& query) {
    return std::string(route("PUT", "/v1/subjects/m" + query)->quota()->unknown_parameter);
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
                ->unknown_parameter,
            "");
}

TEST(RestReader, notes_unclear_parameters_under_v1) {
  const auto unclear = [](const std::string& query) {
    return std::string(route("GET", "/v1/reservations" + query)->quota()->invalid_parameter);
  };
  EXPECT_EQ(unclear("?subject=m&limit=1"), "");
  EXPECT_EQ(unclear("?subject=%zz"), "subject");
  EXPECT_EQ(unclear("?cursor=%zz"), "cursor");
  EXPECT_EQ(unclear("?limit=1&limit=1"), "limit");
  EXPECT_EQ(unclear("?dry_run=false&dry_run=true"), "dry_run");
}

TEST(RestReader, reads_parameters_under_v1) {
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

// A client that gives dry_run wants no change, so an unclear value never counts as absent.
TEST(RestReader, distinguishes_unclear_and_absent_dry_run) {
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

TEST(RestReader, bounds_the_keys_of_top) {
  EXPECT_EQ(answer("GET", "/top?keys=1"), "top 1");
  EXPECT_EQ(answer("GET", "/top?keys=100"), "top 100");
  EXPECT_EQ(answer("GET", "/top?keys=101"), "400 keys out of bounds");
  EXPECT_EQ(answer("GET", "/top?keys=0"), "400 keys out of bounds");
  EXPECT_EQ(answer("GET", "/top?keys=ten"), "400 failed to parse keys query parameter");
}

TEST(RestReader, trims_unicode_white_space_from_keys) {
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

TEST(RestReader, trims_nothing_else) {
  for (const char* other : {"\xE2\x80\x8B", "\xE2\x80", "\x85", "\xA0", "\xC2", "\xEF\xBB\xBF",
                            "\xE1\xA0\x8E", "\xE2\x81\xA0"}) {
    const std::string key = std::string(other) + "a" + other;
    EXPECT_EQ(answer("GET", "/rate/" + key), "acquire " + key);
  }
}

TEST(RestReader, refuses_empty_keys_and_ids) {
  EXPECT_EQ(answer("DELETE", "/rate//5"), "400 empty key provided");
  EXPECT_EQ(answer("DELETE", "/rate/%20/5"), "400 empty key provided");
  EXPECT_EQ(answer("DELETE", "/rate/%20/%20"), "400 empty key provided");
  EXPECT_EQ(answer("DELETE", "/rate/k/%20"), "400 empty id provided");
  EXPECT_EQ(answer("DELETE", "/rate/k/"), not_found);
}

TEST(RestReader, resets_a_key_by_releasing_all_permits) {
  EXPECT_EQ(answer("DELETE", "/rate/k"), "release k");
  EXPECT_EQ(answer("DELETE", "/rate/k?cost=x"), "release k");
  EXPECT_EQ(answer("DELETE", "/rate/%20"), "400 empty key provided");
  EXPECT_EQ(answer("DELETE", "/rate/abcde", {.key_bytes_max = 4}),
            "431 key too long (--max-key-bytes)");
}

TEST(RestReader, refuses_long_keys) {
  const RestOptions options{.key_bytes_max = 4};
  EXPECT_EQ(answer("GET", "/rate/abcd", options), "acquire abcd");
  EXPECT_EQ(answer("GET", "/rate/%61bcd%20", options), "acquire abcd");
  EXPECT_EQ(answer("GET", "/rate/abcde", options), "431 key too long (--max-key-bytes)");
  EXPECT_EQ(answer("GET", "/rate/abcde?canWait=x", options), "431 key too long (--max-key-bytes)");
  EXPECT_EQ(answer("DELETE", "/rate/abcde/1", options), "431 key too long (--max-key-bytes)");
  EXPECT_EQ(answer("GET", "/debug/abcde", options), "404 Key not found");
}

TEST(RestReader, keeps_what_another_instance_has_forwarded) {
  EXPECT_NE(entry("ik=true").flags & api::flag::stays_here, 0);
  EXPECT_EQ(entry("ik=false").flags & api::flag::stays_here, 0);
}

TEST(RestReader, asks_for_one_permit_by_default) {
  for (const char* query : {"", "&", "&&=&", "canWait=", "canWait=%20&cost=+&maxRequests=%C2%A0",
                            "other=1", "canWait", "ik=1", "CANWAIT=1&Cost=7"}) {
    const api::Entry plain = entry(query);
    EXPECT_EQ(plain.op, api::Op::acquire) << query;
    EXPECT_EQ(plain.cost, 1u) << query;
    EXPECT_EQ(plain.flags, api::flag::wants_details | api::flag::shows_id) << query;
    EXPECT_EQ(decision(query).overrides, api::no_overrides) << query;
    EXPECT_EQ(plain.wait_ms_max, 0u) << query;
    EXPECT_EQ(plain.ticket, api::no_ticket) << query;
  }
}

TEST(RestReader, reads_all_parameters) {
  const RestDecision all = decision(
      "cost=7&maxRequestsInQueue=8&maxRequests=9&maxWaitMillis=10&windowMillis=11&canWait=true");
  EXPECT_EQ(all.entry.cost, 7u);
  EXPECT_EQ(all.overrides, (api::Overrides{9, 8, 11}));
  EXPECT_EQ(all.entry.wait_ms_max, 10u);
  EXPECT_TRUE(all.entry.flags & api::flag::may_wait);
}

TEST(RestReader, releases_as_many_permits_as_the_cost) {
  const auto routed = route("DELETE", "/rate/k/7?cost=5");
  ASSERT_NE(routed->decision(), nullptr);
  EXPECT_EQ(routed->decision()->entry.op, api::Op::release);
  EXPECT_EQ(routed->decision()->entry.cost, 5u);
  EXPECT_EQ(routed->decision()->entry.flags, 0);
  EXPECT_EQ(answer("DELETE", "/rate/k/7?cost=x"), "400 failed to parse cost query parameter");
  EXPECT_EQ(answer("DELETE", "/rate/k/7?cost=0"), "400 cost out of bounds");
  EXPECT_EQ(answer("DELETE", "/rate/k/7?maxRequests=x&canWait=x"), "release k");
}

TEST(RestReader, reads_the_words_for_true_and_false) {
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

TEST(RestReader, reads_numbers_as_go_does) {
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

// A window may be longer than 32 bits of milliseconds.
TEST(RestReader, reads_a_window_with_64_bits) {
  EXPECT_EQ(decision("windowMillis=31536000000").overrides.window_ms, 31'536'000'000);
  EXPECT_EQ(decision("windowMillis=%2B60000").overrides.window_ms, 60'000);
  for (const char* text : {"x", "1.5", "1m", "%2B-60000", "9223372036854775808"}) {
    EXPECT_EQ(answer("GET", "/rate/k?windowMillis=" + std::string(text)),
              "400 failed to parse windowMillis query parameter")
        << text;
  }
  for (const char* text : {"9", "0", "-1", "-1000000000", "31536000001", "9223372036854775807"}) {
    EXPECT_EQ(answer("GET", "/rate/k?windowMillis=" + std::string(text)),
              "400 windowMillis out of bounds")
        << text;
  }
}

TEST(RestReader, uses_the_first_of_repeated_parameters) {
  EXPECT_EQ(entry("cost=5&cost=6").cost, 5u);
  EXPECT_EQ(entry("cost=&cost=6").cost, 1u);
  EXPECT_EQ(entry("cost&cost=6").cost, 1u);
  EXPECT_EQ(entry("cost=5&cost=x").cost, 5u);
  EXPECT_TRUE(is_refused("cost=x&cost=5"));
}

TEST(RestReader, drops_the_pairs_that_go_drops) {
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
  bool can_set_window = true;
};

// The order of the checks, shown by requests with several faults.
TEST(RestReader, checks_in_order) {
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
      {"cost=-1&maxWaitMillis=x", "400 failed to parse maxWaitMillis query parameter"},
      {"cost=-1&maxWaitMillis=-1", "400 cost out of bounds"},
      {"cost=-1", "400 cost out of bounds"},
      {"cost=1000000001", "400 cost out of bounds"},
      {"cost=1&maxWaitMillis=-1", "400 maxWaitMillis out of bounds"},
      {"maxWaitMillis=3600001", "400 maxWaitMillis out of bounds"},
      {"maxWaitMillis=-1&windowMillis=x", "400 maxWaitMillis out of bounds", true, true, false},
      {"windowMillis=x", "400 failed to parse windowMillis query parameter", true, true, false},
      {"windowMillis=9", "403 windowMillis query parameter is disabled", true, true, false},
      {"windowMillis=9", "400 windowMillis out of bounds"},
      {"windowMillis=%20", "acquire k", true, true, false},
      {"maxRequests=1&maxRequestsInQueue=0&cost=1&maxWaitMillis=0", "acquire k"},
      {"maxRequests=1000000000&maxRequestsInQueue=1000000000&cost=1000000000"
       "&maxWaitMillis=3600000",
       "acquire k"},
      {"maxRequests=%20&maxRequestsInQueue=", "acquire k", false, false},
  };
  for (const Check& check : checks) {
    const RestOptions options{.requests_can_set_rate = check.can_set_rate,
                              .requests_can_mod_queue = check.can_mod_queue,
                              .requests_can_set_window = check.can_set_window};
    for (const char* method : {"GET", "POST"}) {
      EXPECT_EQ(answer(method, "/rate/k?" + std::string(check.query), options), check.answer)
          << check.query;
    }
    EXPECT_EQ(answer("POST", "/rate/%20?" + std::string(check.query), options),
              "400 empty key provided");
  }
}

TEST(RestReader, answers_complaints_in_plain_text) {
  const auto routed = route("GET", "/rate/k?cost=x");
  EXPECT_EQ(routed->reply()->content_type, "text/plain; charset=UTF-8");
  EXPECT_EQ(routed->reply()->allow, "");
  EXPECT_FALSE(routed->reply()->json);
}

TEST(RestReader, answers_complaints_in_json_when_asked) {
  const auto routed = route("GET", "/rate/k?cost=x", {}, "application/json");
  EXPECT_EQ(routed->reply()->content_type, "application/json");
  EXPECT_TRUE(routed->reply()->json);
}

TEST(RestReader, reads_whether_the_client_accepts_json) {
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

TEST(RestReader, reads_prefix_and_limit_of_debug) {
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
    EXPECT_FALSE(reply.is_rate_refusal);
    return std::string{reply.body};
  };
  for (const char* limit : {"x", "1.5", "2147483648"}) {
    EXPECT_EQ(refused(limit), "failed to parse limit query parameter") << limit;
  }
  for (const char* limit : {"0", "-1", "1000000001"}) {
    EXPECT_EQ(refused(limit), "limit out of bounds") << limit;
  }
}

TEST(RestReader, marks_refusals_of_rate_requests) {
  const auto refused = route("POST", "/rate/k?cost=-1");
  EXPECT_TRUE(std::get<RestReply>(refused->request).is_rate_refusal);
  const auto unknown = route("POST", "/no");
  EXPECT_FALSE(std::get<RestReply>(unknown->request).is_rate_refusal);
}

TEST(RestReader, shows_pretty_for_any_value) {
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

// Only another node is sent it.
TEST(RestReader, a_decision_has_the_correlation_id_of_its_caller) {
  const std::string long_id(2 * limits::correlation_id_bytes_max, 'c');
  std::array<char, 100> buffer{};
  HttpRequest request{.method = "POST", .target = "/rate/k", .correlation_id = long_id};
  const auto id_of = [&](const RestOptions& options) {
    const RestRequest routed = route_request(request, options, buffer);
    return std::get<RestDecision>(routed).overrides.correlation_id;
  };
  EXPECT_EQ(id_of({}), "");
  EXPECT_EQ(id_of({.has_other_nodes = true}), long_id.substr(0, limits::correlation_id_bytes_max));
  request.correlation_id = "c-17";
  EXPECT_EQ(id_of({.has_other_nodes = true}), "c-17");
}

}  // namespace
}  // namespace sluice::wire
