// Goal: bodies and queries under /v1/ become the right calls, and refusals name the faulty field.
// Method: one body per row, compared with its call or its complaint.
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "wire/rest_quota.hpp"

namespace sluice::wire {
namespace {

using api::QuotaOp;
namespace given = api::given;

constexpr QuotaOptions default_options{.name_bytes_max = 64};

std::variant<QuotaRequest, QuotaProblem> read(QuotaEndpoint endpoint, std::string_view body,
                                              const QuotaOptions& options = default_options) {
  return read_quota_request({.endpoint = endpoint, .method = "POST"}, body, options);
}

QuotaRequest request(QuotaEndpoint endpoint, std::string_view body) {
  auto result = read(endpoint, body);
  if (const auto* problem = std::get_if<QuotaProblem>(&result)) {
    ADD_FAILURE() << body << ": " << problem->detail;
    return {};
  }
  return std::get<QuotaRequest>(std::move(result));
}

// "400 invalid_request: field: what"
std::string problem(const std::variant<QuotaRequest, QuotaProblem>& result) {
  const auto* problem = std::get_if<QuotaProblem>(&result);
  if (problem == nullptr) return "none";
  std::string text = std::to_string(problem->status) + " " + std::string(problem->code);
  return problem->detail.empty() ? text : text + ": " + problem->detail;
}

std::string refusal(QuotaEndpoint endpoint, std::string_view body) {
  return problem(read(endpoint, body));
}

TEST(RestQuotaRequest, reads_every_field_of_a_reserve) {
  const QuotaRequest reserve = request(
      QuotaEndpoint::reserve,
      R"({"subjects": ["a", "b"], "requests": 2, "input_tokens": 900, "max_output_tokens": 500,
          "cost": 7, "lifetime_ms": 60000, "wait_limit_ms": 250, "id": "mine", "owner": "me"})");
  EXPECT_EQ(reserve.call.op, QuotaOp::reserve);
  EXPECT_EQ(reserve.subjects, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(reserve.call.amounts, (api::Amounts{2, 900, 500, 7}));
  EXPECT_EQ(reserve.call.given_bits,
            given::requests | given::input_tokens | given::output_tokens | given::cost);
  EXPECT_EQ(reserve.call.lifetime_ms, 60'000u);
  EXPECT_EQ(reserve.call.wait_ms_max, 250u);
  EXPECT_EQ(reserve.call.flags, api::quota_flag::may_wait);
  EXPECT_EQ(reserve.client_id, "mine");
  EXPECT_EQ(reserve.owner, "me");
}

TEST(RestQuotaRequest, leaves_defaults_to_the_store) {
  const QuotaRequest reserve = request(QuotaEndpoint::reserve, R"({"subjects": ["a"]})");
  EXPECT_EQ(reserve.call.amounts, api::Amounts{});
  EXPECT_EQ(reserve.call.given_bits, 0);
  EXPECT_EQ(reserve.call.lifetime_ms, 0u);
  EXPECT_EQ(reserve.call.flags, 0);
}

TEST(RestQuotaRequest, cuts_a_wait_to_the_servers_limit) {
  const auto result = read(QuotaEndpoint::reserve, R"({"subjects": ["a"], "wait_limit_ms": 9000})",
                           {.wait_ms_max = 1'000});
  EXPECT_EQ(std::get<QuotaRequest>(result).call.wait_ms_max, 1'000u);
}

TEST(RestQuotaRequest, does_not_let_a_check_wait) {
  const QuotaRequest check =
      request(QuotaEndpoint::check, R"({"subjects": ["a"], "wait_limit_ms": 9000})");
  EXPECT_EQ(check.call.op, QuotaOp::check);
  EXPECT_EQ(check.call.flags, 0);
}

TEST(RestQuotaRequest, settles_only_the_given_amounts) {
  const QuotaRequest settle = request(
      QuotaEndpoint::settle,
      R"({"reservation": "00ab00000000000f", "input_tokens": 880, "cached_input_tokens": 80})");
  EXPECT_EQ(settle.call.op, QuotaOp::settle);
  EXPECT_EQ(settle.call.reservation, 0x00AB'0000'0000'000FU);
  EXPECT_EQ(settle.call.given_bits, given::input_tokens);
  EXPECT_EQ(settle.call.amounts.input_tokens, 880u);
  EXPECT_EQ(settle.call.cached_input_tokens, 80u);
}

TEST(RestQuotaRequest, reads_cancel_extend_record_and_resets) {
  constexpr uint8_t keeps = api::quota_flag::keep_requests;
  const std::string id = R"("reservation": "0000000000000001")";
  EXPECT_EQ(request(QuotaEndpoint::cancel, "{" + id + "}").call.flags, 0);
  EXPECT_EQ(request(QuotaEndpoint::cancel, "{" + id + R"(, "keep_requests": true})").call.flags,
            keeps);
  EXPECT_EQ(request(QuotaEndpoint::extend, "{" + id + R"(, "lifetime_ms": 10})").call.lifetime_ms,
            10u);
  const QuotaRequest record =
      request(QuotaEndpoint::record, R"({"subjects": ["a"], "output_tokens": 3})");
  EXPECT_EQ(record.call.op, QuotaOp::record);
  EXPECT_EQ(record.call.amounts, (api::Amounts{1, 0, 3, 0}));
  EXPECT_EQ(request(QuotaEndpoint::reset, R"({"subject": "a"})").subjects[0], "a");
  for (const char* body : {"", "{}", " \n"}) {
    EXPECT_EQ(request(QuotaEndpoint::reset_all, body).call.op, QuotaOp::reset_all);
  }
}

TEST(RestQuotaRequest, refuses_a_body_that_is_no_object) {
  for (const char* body : {"", "[]", "7", "null", "{", "{}x", "{\"subjects\": [\"\xFF\"]}"}) {
    EXPECT_EQ(refusal(QuotaEndpoint::reserve, body).find("400 invalid_request: the body: "), 0u)
        << body;
  }
}

TEST(RestQuotaRequest, refuses_endless_nesting) {
  const std::string deep = R"({"subjects": )" + std::string(30'000, '[');
  EXPECT_NE(refusal(QuotaEndpoint::reserve, deep), "none");
  const std::string closed = deep + std::string(30'000, ']') + "}";
  EXPECT_EQ(refusal(QuotaEndpoint::reserve, closed),
            "400 invalid_request: the body: nested too deeply");
}

TEST(RestQuotaRequest, refuses_endless_fields) {
  const auto refuse = [](int names_count) {
    std::string body = "{";
    for (int i = 0; i < names_count; ++i) body += "\"x" + std::to_string(i) + "\": 1, ";
    return refusal(QuotaEndpoint::reserve, body + R"("subjects": ["a"]})");
  };
  EXPECT_EQ(refuse(63).find("400 invalid_request: \"x0\": no such field; there are subjects, "),
            0u);
  EXPECT_EQ(refuse(64), "400 invalid_request: the body: too many fields");
}

TEST(RestQuotaRequest, names_the_field_and_the_cure) {
  const auto refuse = [](std::string_view more) {
    return refusal(QuotaEndpoint::reserve, R"({"subjects": ["a"], )" + std::string(more) + "}");
  };
  EXPECT_EQ(refuse(R"("token": 1)"),
            "400 invalid_request: \"token\": no such field; there are subjects, requests, "
            "input_tokens, max_output_tokens, cost, lifetime_ms, wait_limit_ms, id and owner");
  EXPECT_EQ(refuse(R"("output_tokens": 1)").find("400 invalid_request: \"output_tokens\""), 0u);
  EXPECT_EQ(refuse(R"("requests": -1)"),
            "400 invalid_request: requests: must be a whole number from 0 to 9223372036854775807, "
            "not -1");
  EXPECT_EQ(
      refuse(R"("lifetime_ms": 9)"),
      "400 invalid_request: lifetime_ms: must be a whole number from 10 to 2592000000, not 9");
  EXPECT_EQ(refuse(R"("id": "")"),
            "400 invalid_request: id: must be a string of 1 to 128 bytes, not \"\"");
  EXPECT_EQ(refuse(R"("requests": 1, "requests": 1)"),
            "400 invalid_request: the body: \"requests\" is given twice; give it once");
  for (const char* wrong : {"1.5", "1e3", "\"1\"", "null", "true", "[]", "{}",
                            "9223372036854775808", "99999999999999999999"}) {
    EXPECT_EQ(refuse(R"("requests": )" + std::string(wrong)).find("400 invalid_request: requests"),
              0u)
        << wrong;
  }
}

TEST(RestQuotaRequest, refuses_negative_tokens_with_a_code_of_their_own) {
  const std::string start = R"({"subjects": ["a"], ")";
  for (const char* field : {"input_tokens", "max_output_tokens"}) {
    EXPECT_EQ(refusal(QuotaEndpoint::reserve, start + field + "\": -1}"),
              "400 invalid_tokens: " + std::string(field) +
                  ": must be a whole number from 0 to 9223372036854775807, not -1");
  }
  EXPECT_EQ(refusal(QuotaEndpoint::record, start + "cached_input_tokens\": -0.5}").find("400 inv"),
            0u);
}

TEST(RestQuotaRequest, refuses_a_nul_byte_in_a_body) {
  EXPECT_EQ(refusal(QuotaEndpoint::record, std::string_view("{\"subjects\": [\"a\"]}\0}", 21)),
            "400 invalid_request: the body: not JSON: there is a NUL byte");
}

TEST(RestQuotaRequest, refuses_more_cached_tokens_than_input_tokens) {
  EXPECT_EQ(refusal(QuotaEndpoint::record,
                    R"({"subjects": ["a"], "cached_input_tokens": 2, "input_tokens": 1})"),
            "400 invalid_request: cached_input_tokens: must be a part of input_tokens, not more");
  EXPECT_EQ(refusal(QuotaEndpoint::record, R"({"subjects": ["a"], "cached_input_tokens": 1})"),
            "400 invalid_request: cached_input_tokens: must be a part of input_tokens, not more");
  // Amounts that stay as reserved are not known here.
  EXPECT_EQ(refusal(QuotaEndpoint::settle,
                    R"({"reservation": "0000000000000001", "cached_input_tokens": 2})"),
            "none");
}

TEST(RestQuotaRequest, requires_one_to_eight_different_subjects) {
  const auto refuse = [](const std::string& subjects) {
    return refusal(QuotaEndpoint::reserve, R"({"subjects": )" + subjects + "}");
  };
  EXPECT_EQ(refuse("[]"), "400 invalid_subject: subjects: must have 1 to 8 names, not 0");
  EXPECT_EQ(refuse(R"(["1","2","3","4","5","6","7","8","9"])"),
            "400 invalid_subject: subjects: must have 1 to 8 names, not 9");
  EXPECT_EQ(refuse(R"(["a", "b", "a"])"), "400 invalid_subject: subjects[2]: \"a\" is a duplicate");
  EXPECT_EQ(refuse(R"(["a", ""])"), "400 invalid_subject: subjects[1]: is empty");
  EXPECT_EQ(refuse("[\"" + std::string(65, 'x') + "\"]"),
            "400 invalid_subject: subjects[0]: is too long (--max-key-bytes)");
  EXPECT_EQ(refuse(R"(["a", 1])"), "400 invalid_request: subjects[1]: must be a string, not 1");
  EXPECT_EQ(refuse(R"("a")"),
            "400 invalid_request: subjects: must be an array of strings, not \"a\"");
  EXPECT_EQ(refusal(QuotaEndpoint::reserve, "{}"), "400 invalid_request: subjects: is missing");
}

TEST(RestQuotaRequest, refuses_texts_that_are_no_id) {
  for (const char* id : {"", "1", "00AB00000000000F", "00ab00000000000g", "00ab00000000000f0"}) {
    EXPECT_EQ(refusal(QuotaEndpoint::settle, R"({"reservation": ")" + std::string(id) + "\"}"),
              "404 unknown_reservation")
        << id;
  }
  EXPECT_EQ(refusal(QuotaEndpoint::settle, R"({"reservation": 1})"),
            "400 invalid_request: reservation: must be the id that /v1/reserve returned, not 1");
}

// --- Subjects ------------------------------------------------------------------------------

std::variant<QuotaRequest, QuotaProblem> put(std::string_view subject, std::string_view body) {
  return read_quota_request(
      {.endpoint = QuotaEndpoint::subject, .method = "PUT", .subject = subject}, body,
      default_options);
}

TEST(RestQuotaRequest, reads_a_quota) {
  const auto result = put("m", R"({"limits": [{"name": "tpm", "metric": "tokens", "amount": 30000,
                                   "period_ms": 60000, "kind": "sliding"}]})");
  ASSERT_EQ(problem(result), "none");
  const QuotaRequest& request = std::get<QuotaRequest>(result);
  ASSERT_EQ(request.quota.limits.size(), 1u);
  EXPECT_EQ(request.quota.limits[0].amount, 30'000u);
  api::QuotaBatch batch;
  fill_batch(request, batch);
  ASSERT_EQ(batch.calls.size(), 2u);
  EXPECT_EQ(batch.calls[0].op, QuotaOp::put);
  EXPECT_EQ(batch.calls[1].op, QuotaOp::usage);
  EXPECT_EQ(batch.new_quotas[0], request.quota);
  EXPECT_EQ(batch.subjects, (std::vector<std::string_view>{"m"}));
}

TEST(RestQuotaRequest, reports_all_faults_of_a_quota) {
  const auto result = put("m", R"({"limits": [{"name": "a", "metric": "x", "amount": -1}]})");
  const auto* wrong = std::get_if<QuotaProblem>(&result);
  ASSERT_NE(wrong, nullptr);
  EXPECT_EQ(wrong->status, 400);
  EXPECT_EQ(wrong->code, "invalid_quota");
  EXPECT_EQ(wrong->complaints.size(), 2u);
  EXPECT_EQ(wrong->detail, wrong->complaints[0]);
}

// 16 limits with 63 unknown fields each.
TEST(RestQuotaRequest, reports_the_first_faults_and_counts_the_others) {
  nlohmann::json limit{{"name", "a"}};
  for (int field = 0; field < 63; ++field) limit[std::to_string(field)] = 0;
  const nlohmann::json quota{{"limits", std::vector<nlohmann::json>(16, limit)}};
  const auto result = put("m", quota.dump());
  const auto* wrong = std::get_if<QuotaProblem>(&result);
  ASSERT_NE(wrong, nullptr);
  EXPECT_EQ(wrong->complaints.size(), 20u);
  // Also metric and amount are missing, and 15 names are duplicates.
  EXPECT_EQ(wrong->complaints.size() + wrong->complaints_left_out, 16u * 65 + 15);
}

TEST(RestQuotaRequest, reads_a_quota_as_a_get_answers_it) {
  const auto result = put("m", R"json({"name": "other", "source": "profile",
      "profile": "openai (2026-02)", "limits": [{"name": "tpm", "metric": "tokens",
      "amount": 1000, "period_ms": 60000, "kind": "sliding", "used": 900, "reserved": 0,
      "remaining": 100, "reset_ms": 1500}], "expired": "keep", "overtakers": 0,
      "open_reservations": 2, "waiting": 1})json");
  ASSERT_EQ(problem(result), "none");
  const QuotaRequest& request = std::get<QuotaRequest>(result);
  EXPECT_EQ(request.subjects, std::vector<std::string>{"m"}) << "the path's";
  EXPECT_EQ(request.quota.limits.size(), 1u);
  EXPECT_EQ(request.quota.profile, "");
}

TEST(RestQuotaRequest, refuses_long_subjects_in_paths) {
  EXPECT_EQ(problem(put(std::string(65, 'x'), "{}")),
            "400 invalid_subject: subject: is too long (--max-key-bytes)");
  EXPECT_EQ(problem(put("", "{}")), "400 invalid_subject: subject: is empty");
}

TEST(RestQuotaRequest, reads_pages) {
  const auto page = [](std::string_view cursor, std::string_view limit) {
    return read_quota_request(
        {.endpoint = QuotaEndpoint::subjects, .method = "GET", .cursor = cursor, .limit = limit},
        {}, default_options);
  };
  const auto first = page("", "");
  EXPECT_EQ(std::get<QuotaRequest>(first).call.limit, quota_page_rows);
  const auto next = page("00000000000000ff", "7");
  EXPECT_EQ(std::get<QuotaRequest>(next).call.cursor, 255u);
  EXPECT_EQ(std::get<QuotaRequest>(next).call.limit, 7u);
  EXPECT_EQ(problem(page("ff", "")),
            "400 invalid_request: cursor: must be the `cursor` of the previous page");
  for (const char* limit : {"0", "257", "-1", "x", "1 "}) {
    EXPECT_EQ(problem(page("", limit)).find("400 invalid_request: limit: must be a whole"), 0u)
        << limit;
  }
}

TEST(RestQuotaRequest, reads_requests_for_holders) {
  const auto holders = [](RestQuota asked) {
    asked.endpoint = QuotaEndpoint::reservations;
    asked.method = "GET";
    return read_quota_request(asked, {}, default_options);
  };
  const auto all = holders({});
  EXPECT_EQ(std::get<QuotaRequest>(all).call.op, QuotaOp::holders);
  EXPECT_EQ(std::get<QuotaRequest>(all).subjects.size(), 0u);
  EXPECT_EQ(std::get<QuotaRequest>(all).call.limit, quota_page_rows);
  const auto one = holders({.subject = " m ", .by_subject = true, .cursor = "00000000000000ff"});
  EXPECT_EQ(std::get<QuotaRequest>(one).subjects, std::vector<std::string>{" m "});
  EXPECT_EQ(std::get<QuotaRequest>(one).call.cursor, 255u);
  api::QuotaBatch batch;
  fill_batch(std::get<QuotaRequest>(one), batch);
  EXPECT_EQ(batch.calls[0].subjects_count, 1);
  EXPECT_EQ(problem(holders({.by_subject = true})), "400 invalid_subject: subject: is empty");
  const std::string too_long(65, 'x');
  EXPECT_EQ(problem(holders({.subject = too_long, .by_subject = true})),
            "400 invalid_subject: subject: is too long (--max-key-bytes)");
  EXPECT_EQ(problem(holders({.limit = "257"})).find("400 invalid_request: limit: "), 0u);
  EXPECT_EQ(problem(holders({.cursor = "x"})).find("400 invalid_request: cursor: "), 0u);
}

TEST(RestQuotaRequest, reads_requests_for_a_reservation) {
  const auto shown = [](std::string_view id) {
    return read_quota_request(
        {.endpoint = QuotaEndpoint::reservation, .method = "GET", .reservation = id}, {},
        default_options);
  };
  const auto read = shown("00000a5d1c2e9f03");
  EXPECT_EQ(std::get<QuotaRequest>(read).call.op, QuotaOp::show);
  EXPECT_EQ(std::get<QuotaRequest>(read).call.reservation, 0x0A5D'1C2E'9F03u);
  for (const char* id : {"1", "00000A5D1C2E9F03", "00000a5d1c2e9f030", "0000000000000/03"}) {
    EXPECT_EQ(problem(shown(id)), "404 unknown_reservation") << id;
  }
}

TEST(RestQuotaRequest, reads_the_styles_of_headers) {
  const auto style = [](std::string_view text) {
    return read_quota_request(
        {.endpoint = QuotaEndpoint::check, .method = "POST", .rate_style = text},
        R"({"subjects": ["a"]})", default_options);
  };
  EXPECT_EQ(std::get<QuotaRequest>(style("")).style, RateStyle::plain);
  EXPECT_EQ(std::get<QuotaRequest>(style("OpenAI")).style, RateStyle::openai);
  EXPECT_EQ(std::get<QuotaRequest>(style("anthropic")).style, RateStyle::anthropic);
  const RestQuota both{.endpoint = QuotaEndpoint::reset_all,
                       .method = "POST",
                       .rate_style = "anthropic",
                       .headers = "openai"};
  const auto of_both = read_quota_request(both, {}, default_options);
  EXPECT_EQ(std::get<QuotaRequest>(of_both).style, RateStyle::anthropic);
  const auto wrong = read_quota_request({.endpoint = QuotaEndpoint::reset_all,
                                         .method = "POST",
                                         .rate_style = "openai",
                                         .headers = "x"},
                                        {}, default_options);
  EXPECT_EQ(problem(wrong).find("400 invalid_request"), 0u);
  EXPECT_EQ(problem(style("x")).find("400 invalid_request: X-RateLimit-Style, ?headers:"), 0u);
}

TEST(RestQuotaRequest, requests_the_limits_of_decided_calls) {
  constexpr uint8_t both = api::quota_flag::wants_limits | api::quota_flag::wants_violated;
  const QuotaRequest reserve =
      request(QuotaEndpoint::reserve, R"({"subjects": ["a", "b"], "wait_limit_ms": 5})");
  api::QuotaBatch batch;
  fill_batch(reserve, batch);
  EXPECT_EQ(batch.calls[0].flags, both | api::quota_flag::may_wait);
  EXPECT_EQ(batch.calls[0].subjects_count, 2);
}

// ---------------------------------------------------------------------------------- dry runs

// The operation of each call, and the number of its subjects.
using Calls = std::vector<std::pair<QuotaOp, int>>;

std::variant<QuotaRequest, QuotaProblem> read_dry(QuotaEndpoint endpoint, std::string_view method,
                                                  std::string_view body, DryRun dry_run) {
  return read_quota_request(
      {.endpoint = endpoint, .method = method, .subject = "m", .dry_run = dry_run}, body,
      default_options);
}

Calls calls_of(const std::variant<QuotaRequest, QuotaProblem>& read) {
  api::QuotaBatch batch;
  fill_batch(std::get<QuotaRequest>(read), batch);
  Calls calls;
  for (const api::QuotaCall& call : batch.calls) calls.emplace_back(call.op, call.subjects_count);
  return calls;
}

struct Administrative {
  QuotaEndpoint endpoint;
  std::string_view method;
  std::string_view body;
  QuotaOp op;
};
constexpr std::array<Administrative, 4> administrative{{
    {QuotaEndpoint::subject, "PUT", R"({"limits": []})", QuotaOp::put},
    {QuotaEndpoint::subject, "DELETE", "", QuotaOp::remove},
    {QuotaEndpoint::reset, "POST", R"({"subject": "m"})", QuotaOp::reset},
    {QuotaEndpoint::reset_all, "POST", "", QuotaOp::reset_all},
}};

TEST(RestQuotaRequest, turns_a_dry_run_into_a_usage_call) {
  for (const auto& [endpoint, method, body, op] : administrative) {
    const int count = op == QuotaOp::reset_all ? 0 : 1;
    const auto dry = read_dry(endpoint, method, body, DryRun::yes);
    EXPECT_TRUE(std::get<QuotaRequest>(dry).dry_run);
    EXPECT_EQ(std::get<QuotaRequest>(dry).call.op, op);
    EXPECT_EQ(calls_of(dry), (Calls{{QuotaOp::usage, count}}));
    for (const DryRun no : {DryRun::no, DryRun::absent}) {
      EXPECT_EQ(calls_of(read_dry(endpoint, method, body, no)).front(), std::pair(op, count));
    }
  }
}

TEST(RestQuotaRequest, checks_a_dry_run_like_the_call) {
  for (const char* body : {"[]", R"({"limits": [7]})"}) {
    const auto dry = read_dry(QuotaEndpoint::subject, "PUT", body, DryRun::yes);
    const auto plain = read_dry(QuotaEndpoint::subject, "PUT", body, DryRun::absent);
    EXPECT_EQ(problem(dry), problem(plain));
    EXPECT_NE(problem(dry), "none");
  }
  EXPECT_EQ(problem(read_dry(QuotaEndpoint::reset, "POST", "{}", DryRun::yes)),
            "400 invalid_request: subject: is missing");
}

TEST(RestQuotaRequest, refuses_a_cluster_that_is_neither_true_nor_false) {
  EXPECT_EQ(
      problem(read_quota_request(
          {.endpoint = QuotaEndpoint::reset_all, .method = "POST", .has_unclear_cluster = true}, "",
          default_options)),
      "400 invalid_request: cluster: must be true or false");
}

TEST(RestQuotaRequest, refuses_an_unclear_or_unsupported_dry_run) {
  for (const auto& [endpoint, method, body, op] : administrative) {
    EXPECT_EQ(problem(read_dry(endpoint, method, body, DryRun::unclear)),
              "400 invalid_request: dry_run: must be true or false");
  }
  for (const DryRun given : {DryRun::yes, DryRun::no, DryRun::unclear}) {
    EXPECT_EQ(problem(read_dry(QuotaEndpoint::reserve, "POST", R"({"subjects": ["m"]})", given)),
              "400 invalid_request: dry_run: not supported here; POST /v1/check shows what a "
              "reserve would do");
  }
}

TEST(RestQuotaRequest, refuses_unclear_and_unknown_parameters) {
  for (const auto& [endpoint, method, body, op] : administrative) {
    RestQuota asked{
        .endpoint = endpoint, .method = method, .subject = "m", .invalid_parameter = "dry_run"};
    EXPECT_EQ(problem(read_quota_request(asked, body, default_options)),
              "400 invalid_request: the query: dry_run: given twice, or impossible to decode");
    asked.unknown_parameter = "dry-run";
    EXPECT_EQ(problem(read_quota_request(asked, body, default_options)),
              "400 invalid_request: the query: no such parameter \"dry-run\"; there are headers, "
              "dry_run" +
                  std::string(endpoint == QuotaEndpoint::reset_all ? ", cluster" : ""));
  }
}

TEST(RestQuotaRequest, reads_only_bodies_of_post_and_put) {
  EXPECT_TRUE(reads_quota_body({.method = "POST"}));
  EXPECT_TRUE(reads_quota_body({.method = "PUT"}));
  EXPECT_FALSE(reads_quota_body({.method = "GET"}));
  EXPECT_FALSE(reads_quota_body({.method = "DELETE"}));
}

}  // namespace
}  // namespace sluice::wire
