// Goal: every answer about quotas has the status, the JSON and the headers of docs/rest.md.
// Method: answers made by hand, compared with whole bodies.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "wire/rest_quota.hpp"

namespace sluice::wire {
namespace {

using api::QuotaCode;
using api::QuotaOp;
using Json = nlohmann::json;

api::LimitReport limit_report(std::string_view name, api::Metric metric, uint64_t amount,
                              uint64_t used) {
  api::LimitReport limit;
  limit.metric = metric;
  limit.kind =
      metric == api::Metric::concurrency ? api::LimitKind::concurrency : api::LimitKind::sliding;
  limit.name_bytes = static_cast<uint8_t>(name.copy(limit.name, sizeof limit.name));
  limit.amount = amount;
  limit.used = used;
  limit.remaining = amount > used ? amount - used : 0;
  limit.period_ms = limit.kind == api::LimitKind::concurrency ? 0 : 60'000;
  limit.reset_ms = limit.kind == api::LimitKind::concurrency ? 0 : 1'500;
  return limit;
}

// One answer of `op`, with the batch that it points into.
struct Exchange {
  explicit Exchange(QuotaOp op, QuotaCode code = QuotaCode::ok) {
    request.call.op = op;
    request.subjects = {"m"};
    batch.calls.push_back(request.call);
    batch.make_answers();
    answer().code = code;
  }

  api::QuotaAnswer& answer() { return batch.answers[0]; }

  void add(const api::LimitReport& limit) {
    batch.limits.push_back(limit);
    ++answer().limits_count;
  }

  // A row with the limits of the answer.
  void add_row(std::string_view name, api::QuotaSource source, api::Quota quota) {
    api::SubjectRow row;
    row.name_begin = static_cast<uint32_t>(batch.answer_text.size());
    row.name_bytes = static_cast<uint32_t>(name.size());
    row.source = source;
    row.quota = static_cast<uint32_t>(batch.quotas.size());
    row.limits_count = static_cast<uint32_t>(batch.limits.size());
    row.open_reservations = 2;
    row.waiting = 1;
    batch.answer_text += name;
    batch.quotas.push_back(std::move(quota));
    batch.rows.push_back(row);
    ++answer().rows_count;
  }

  QuotaReply reply() const { return quota_reply(request, batch, 0); }

  QuotaRequest request;
  api::QuotaBatch batch;
};

Json body_of(const QuotaReply& reply) {
  return Json::parse(reply.body);
}

TEST(RestQuotaReply, shows_a_reservation_with_its_limits) {
  Exchange exchange{QuotaOp::reserve};
  exchange.answer().reservation = 0x00AB'0000'0000'000FU;
  exchange.answer().lifetime_ms = 60'000;
  api::LimitReport tokens = limit_report("tpm", api::Metric::tokens, 1'000, 900);
  tokens.reserved = 300;
  exchange.add(tokens);
  exchange.add(limit_report("slots", api::Metric::concurrency, 4, 1));
  const QuotaReply reply = exchange.reply();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.content_type, "application/json");
  EXPECT_EQ(reply.body,
            R"({"reservation":"00ab00000000000f","code":"ok","expires_in_ms":60000,)"
            R"("subjects":[{"name":"m",)"
            R"("limits":[{"name":"tpm","metric":"tokens","kind":"sliding","period_ms":60000,)"
            R"("amount":1000,"used":900,"reserved":300,"remaining":100,"reset_ms":1500},)"
            R"({"name":"slots","metric":"concurrency","amount":4,"used":1,"reserved":0,)"
            R"("remaining":3,"reset_ms":0}]}]})");
}

TEST(RestQuotaReply, shows_every_subject_in_the_order_of_the_request) {
  Exchange exchange{QuotaOp::check, QuotaCode::unlimited};
  exchange.request.subjects = {"b", "a"};
  api::LimitReport second = limit_report("rpm", api::Metric::requests, 1, 0);
  second.subject = 1;
  exchange.add(second);
  const Json body = body_of(exchange.reply());
  EXPECT_FALSE(body.contains("reservation"));
  EXPECT_EQ(body["code"], "unlimited");
  EXPECT_EQ(body["subjects"][0]["name"], "b");
  EXPECT_EQ(body["subjects"][0]["limits"].size(), 0u);
  EXPECT_EQ(body["subjects"][1]["limits"][0]["name"], "rpm");
}

TEST(RestQuotaReply, shows_unlimited_and_block_as_words) {
  Exchange exchange{QuotaOp::check};
  api::LimitReport limit = limit_report("a", api::Metric::requests, 0, 5);
  limit.ceiling = api::Ceiling::unlimited;
  exchange.add(limit);
  limit.ceiling = api::Ceiling::block;
  exchange.add(limit);
  const Json limits = body_of(exchange.reply())["subjects"][0]["limits"];
  EXPECT_EQ(limits[0]["amount"], "unlimited");
  EXPECT_EQ(limits[0]["remaining"], nullptr);
  EXPECT_EQ(limits[1]["amount"], "block");
  EXPECT_EQ(limits[1]["remaining"], 0);
}

TEST(RestQuotaReply, shows_the_violated_limits_of_a_denial) {
  Exchange exchange{QuotaOp::reserve, QuotaCode::tpm_exceeded};
  exchange.answer().retry_after_ms = 1'001;
  api::LimitReport tokens = limit_report("tpm", api::Metric::tokens, 1'000, 900);
  tokens.violated = true;
  exchange.add(tokens);
  exchange.add(limit_report("rpm", api::Metric::requests, 10, 0));
  const QuotaReply reply = exchange.reply();
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.content_type, "application/problem+json");
  EXPECT_EQ(reply.body,
            R"({"type":"urn:sluicegate:problem:tpm_exceeded",)"
            R"("title":"per-minute token limit reached","status":429,"code":"tpm_exceeded",)"
            R"("violated":[{"subject":"m","name":"tpm","metric":"tokens","amount":1000,)"
            R"("used":900,"reserved":0,"remaining":100,"reset_ms":1500}],)"
            R"("retry_after_ms":1001,"retryable":true})");
  EXPECT_EQ(reply.headers,
            "RateLimit: \"tpm\";r=100;t=2, \"rpm\";r=10;t=2\r\n"
            "RateLimit-Policy: \"tpm\";q=1000;w=60, \"rpm\";q=10;w=60\r\nRetry-After: 2\r\n");
}

TEST(RestQuotaReply, is_not_retryable_when_no_wait_helps) {
  for (const QuotaCode code :
       {QuotaCode::exceeds_limit, QuotaCode::blocked, QuotaCode::unknown_subject}) {
    Exchange exchange{QuotaOp::reserve, code};
    exchange.answer().retry_after_ms = api::retry_never;
    const QuotaReply reply = exchange.reply();
    EXPECT_EQ(reply.status, 429);
    EXPECT_EQ(body_of(reply)["retryable"], false);
    EXPECT_EQ(body_of(reply)["retry_after_ms"], nullptr);
    EXPECT_EQ(reply.headers, "");
  }
}

// A queued request is held until it has its outcome, and only the native protocol withdraws.
bool is_refusal(QuotaCode code) {
  return !api::admits(code) && code != QuotaCode::none && code != QuotaCode::queued &&
         code != QuotaCode::withdrawn;
}

TEST(RestQuotaReply, has_a_status_for_every_code) {
  const std::map<QuotaCode, int> unlike_429{
      {QuotaCode::draining, 503},          {QuotaCode::waiters_full, 503},
      {QuotaCode::reservations_full, 503}, {QuotaCode::subjects_full, 503},
      {QuotaCode::id_in_use, 409},         {QuotaCode::subjects_apart, 400},
      {QuotaCode::invalid_subject, 400},   {QuotaCode::unknown_reservation, 404},
      {QuotaCode::already_settled, 409},   {QuotaCode::already_cancelled, 409},
      {QuotaCode::already_expired, 409},   {QuotaCode::invalid_quota, 400},
      {QuotaCode::no_such_quota, 404},     {QuotaCode::connection_waiters_full, 503},
      {QuotaCode::not_durable, 503},       {QuotaCode::memory_only, 503},
      {QuotaCode::owner_unreachable, 502}, {QuotaCode::subject_waiters_full, 503}};
  for (uint32_t number = 0; number < api::quota_codes_count; ++number) {
    const auto code = static_cast<QuotaCode>(number);
    if (!is_refusal(code)) continue;
    const int status = unlike_429.contains(code) ? unlike_429.at(code) : 429;
    const QuotaReply reply = Exchange{QuotaOp::reserve, code}.reply();
    EXPECT_EQ(reply.status, status) << api::code_name(code);
    EXPECT_EQ(body_of(reply)["code"], api::code_name(code));
    EXPECT_EQ(reply.headers.find("Retry-After: 1\r\n") != std::string::npos,
              (status == 429 || status == 503) && api::may_retry(code))
        << api::code_name(code);
  }
  const Exchange allowed{QuotaOp::reserve, QuotaCode::unknown_subject_allowed};
  EXPECT_EQ(allowed.reply().status, 200);
}

TEST(RestQuotaReply, says_of_each_change_that_is_not_in_the_state_file_what_holds) {
  for (const QuotaOp op : {QuotaOp::put, QuotaOp::remove, QuotaOp::reset, QuotaOp::reset_all}) {
    for (const QuotaCode code : {QuotaCode::not_durable, QuotaCode::memory_only}) {
      Exchange exchange{op, code};
      exchange.answer().retry_after_ms = 1'000;
      const QuotaReply reply = exchange.reply();
      EXPECT_EQ(reply.status, 503);
      EXPECT_EQ(reply.content_type, "application/problem+json");
      EXPECT_EQ(reply.headers, "Retry-After: 1\r\n");
      EXPECT_FALSE(reply.closes);
      const std::string name{api::code_name(code)};
      EXPECT_EQ(body_of(reply), (Json{{"type", "urn:sluicegate:problem:" + name},
                                      {"title", api::code_reason(code)},
                                      {"status", 503},
                                      {"code", name},
                                      {"violated", Json::array()},
                                      {"retry_after_ms", 1'000},
                                      {"retryable", true}}));
    }
  }
}

TEST(RestQuotaReply, names_the_node_that_was_not_asked_and_says_why) {
  const std::vector<std::string> nodes{"a:8080", "b:8080"};
  const std::vector<std::pair<api::NodeFailure, std::string>> details{
      {api::NodeFailure::silent, "the owner, b:8080, does not answer"},
      {api::NodeFailure::is_gocc, "the owner, b:8080, is a gocc, which keeps no quotas"},
      {api::NodeFailure::takes_none,
       "the owner, b:8080, takes no quota calls of this node: give both the same "
       "--peer-secret-file"}};
  for (const auto& [failure, detail] : details) {
    for (const QuotaOp op : {QuotaOp::reserve, QuotaOp::settle, QuotaOp::put}) {
      Exchange exchange{op, QuotaCode::owner_unreachable};
      const auto body = [&] {
        return body_of(quota_reply(exchange.request, exchange.batch, 0, nodes));
      };
      EXPECT_FALSE(body().contains("detail")) << "it is not known which node";
      exchange.answer().failed_node_plus_one = 2;
      exchange.answer().node_failure = failure;
      EXPECT_EQ(body()["detail"], detail);
      exchange.answer().code = QuotaCode::failed_closed;
      EXPECT_EQ(body()["detail"], detail);
    }
    Exchange dry_run{QuotaOp::put, QuotaCode::owner_unreachable};
    dry_run.request.dry_run = true;
    Exchange position{QuotaOp::position, QuotaCode::owner_unreachable};
    for (Exchange* const exchange : {&dry_run, &position}) {
      exchange->answer().failed_node_plus_one = 2;
      exchange->answer().node_failure = failure;
      const QuotaReply reply = quota_reply(exchange->request, exchange->batch, 0, nodes);
      EXPECT_EQ(body_of(reply)["detail"], detail);
    }
  }
}

TEST(RestQuotaReply, shows_the_same_retry_time_in_body_and_head) {
  for (const QuotaOp op : {QuotaOp::reserve, QuotaOp::record, QuotaOp::put}) {
    Exchange exchange{op, QuotaCode::subjects_full};
    exchange.answer().retry_after_ms = 2'001;
    EXPECT_EQ(body_of(exchange.reply())["retry_after_ms"], 2'001);
    EXPECT_EQ(exchange.reply().headers, "Retry-After: 3\r\n");
  }
}

TEST(RestQuotaReply, bounds_the_names_in_violated) {
  Exchange exchange{QuotaOp::reserve, QuotaCode::tokens_exceeded};
  exchange.request.subjects = {std::string(30'000, 'x')};
  for (int i = 0; i < 16; ++i) {
    api::LimitReport limit =
        limit_report(std::string(1, static_cast<char>('a' + i)), api::Metric::tokens, 1, 1);
    limit.violated = true;
    exchange.add(limit);
  }
  EXPECT_EQ(body_of(exchange.reply())["violated"].size(), 4u);
}

TEST(RestQuotaReply, shows_the_end_of_a_reservation_without_times) {
  Exchange exchange{QuotaOp::settle};
  exchange.answer().reservation = 1;
  exchange.answer().state = api::ReservationState::settled;
  exchange.answer().amounts = {1, 880, 312, 7};
  EXPECT_EQ(exchange.reply().body,
            R"({"reservation":"0000000000000001","state":"settled","requests":1,)"
            R"("input_tokens":880,"output_tokens":312,"cost":7,"late":false})");
  EXPECT_EQ(exchange.reply().headers, "");
  exchange.request.call.op = QuotaOp::extend;
  exchange.answer().state = api::ReservationState::open;
  exchange.answer().lifetime_ms = 500;
  EXPECT_EQ(exchange.reply().body,
            R"({"reservation":"0000000000000001","state":"open","lifetime_ms":500})");
}

TEST(RestQuotaReply, shows_a_subject_with_its_quota_and_usage) {
  Exchange exchange{QuotaOp::usage};
  exchange.batch.limits.push_back(limit_report("tpm", api::Metric::tokens, 1'000, 900));
  api::Quota quota;
  quota.limits.push_back(
      {.name = "tpm", .metric = api::Metric::tokens, .amount = 1'000, .period_ms = 60'000});
  quota.profile = "openai (2026-02)";
  exchange.add_row("m", api::QuotaSource::profile, quota);
  const QuotaReply reply = exchange.reply();
  EXPECT_EQ(reply.status, 200);
  const Json expected = Json::parse(R"json({"name": "m", "source": "profile",
      "profile": "openai (2026-02)", "limits": [{"name": "tpm", "metric": "tokens",
      "amount": 1000, "period_ms": 60000, "kind": "sliding", "used": 900, "reserved": 0,
      "remaining": 100, "reset_ms": 1500}], "expired": "keep", "overtakers": 0,
      "open_reservations": 2, "waiting": 1})json");
  EXPECT_EQ(body_of(reply), expected);
  EXPECT_NE(reply.headers.find("RateLimit: \"tpm\";r=100;t=2"), std::string::npos);
}

TEST(RestQuotaReply, answers_404_for_a_subject_without_quota) {
  Exchange exchange{QuotaOp::usage};
  exchange.add_row("m", api::QuotaSource::none, {});
  EXPECT_EQ(exchange.reply().status, 404);
  EXPECT_EQ(body_of(exchange.reply())["code"], "unknown_subject");
}

TEST(RestQuotaReply, answers_a_put_as_a_get) {
  Exchange exchange{QuotaOp::put};
  exchange.add_row("m", api::QuotaSource::run_time, {});
  exchange.batch.answers.push_back(exchange.answer());
  exchange.batch.answers[0] = {.code = QuotaCode::ok};
  EXPECT_EQ(body_of(exchange.reply())["source"], "run_time");
}

TEST(RestQuotaReply, shows_new_and_present_quota_in_a_dry_run_of_put) {
  Exchange exchange{QuotaOp::put};
  exchange.request.dry_run = true;
  exchange.request.quota.limits = {
      {.name = "tpm", .metric = api::Metric::tokens, .amount = 5, .period_ms = 60'000}};
  const std::string would =
      R"({"dry_run":true,"subject":"m","quota":{"limits":[{"name":"tpm","metric":"tokens",)"
      R"("amount":5,"period_ms":60000,"kind":"sliding"}]})";
  exchange.add_row("m", api::QuotaSource::none, {});
  EXPECT_EQ(exchange.reply().body, would + "}");
  exchange.batch.rows[0].source = api::QuotaSource::file;
  EXPECT_EQ(exchange.reply().status, 200);
  EXPECT_EQ(exchange.reply().body,
            would + R"(,"present":{"name":"m","source":"file","limits":[],"expired":"keep",)"
                    R"("overtakers":0,"open_reservations":2,"waiting":1}})");
}

TEST(RestQuotaReply, answers_a_dry_run_of_delete_as_the_delete) {
  Exchange exchange{QuotaOp::remove};
  exchange.request.dry_run = true;
  exchange.add_row("m", api::QuotaSource::run_time, {});
  EXPECT_EQ(exchange.reply().status, 200);
  EXPECT_EQ(body_of(exchange.reply())["present"]["source"], "run_time");
  EXPECT_FALSE(body_of(exchange.reply()).contains("quota"));
  for (const auto source : {api::QuotaSource::file, api::QuotaSource::none}) {
    exchange.batch.rows[0].source = source;
    EXPECT_EQ(exchange.reply().status, 404);
    EXPECT_EQ(body_of(exchange.reply())["code"], "no_such_quota");
  }
}

TEST(RestQuotaReply, shows_the_present_usage_in_a_dry_run_of_reset) {
  Exchange exchange{QuotaOp::reset};
  exchange.request.dry_run = true;
  api::Quota quota;
  quota.limits = {{.name = "tpm", .metric = api::Metric::tokens, .amount = 9, .period_ms = 60'000}};
  exchange.batch.limits.push_back(limit_report("tpm", api::Metric::tokens, 9, 7));
  exchange.add_row("m", api::QuotaSource::file, quota);
  EXPECT_EQ(body_of(exchange.reply())["present"]["limits"][0]["used"], 7);
  exchange.batch.rows[0].source = api::QuotaSource::none;
  EXPECT_EQ(exchange.reply().body, R"({"dry_run":true,"subject":"m"})");
  Exchange all{QuotaOp::reset_all, QuotaCode::invalid_subject};  // of none
  all.request.dry_run = true;
  EXPECT_EQ(all.reply().status, 200);
  EXPECT_EQ(all.reply().body, R"({"dry_run":true})");
}

TEST(RestQuotaReply, pages_with_a_cursor_until_the_end) {
  Exchange exchange{QuotaOp::page};
  exchange.add_row("\xFF", api::QuotaSource::run_time, {});
  exchange.answer().next_cursor = 255;
  EXPECT_EQ(body_of(exchange.reply())["cursor"], "00000000000000ff");
  EXPECT_EQ(body_of(exchange.reply())["subjects"][0]["name"], "\xEF\xBF\xBD");
  exchange.answer().next_cursor = 0;
  EXPECT_EQ(body_of(exchange.reply())["cursor"], nullptr);
}

// One row of the holders, with texts of the batch.
api::HolderRow holder(std::string_view owner, std::string_view subject, api::QuotaBatch& batch) {
  const auto add = [&batch](std::string_view text) {
    const auto begin = static_cast<uint32_t>(batch.answer_text.size());
    batch.answer_text += text;
    return api::TextSpan{.begin = begin, .bytes = static_cast<uint32_t>(text.size())};
  };
  api::HolderRow row{.reservation = 0xAB,
                     .amounts = {.requests = 1, .input_tokens = 2, .output_tokens = 3, .cost = 4},
                     .admission = QuotaCode::unlimited,
                     .state = api::ReservationState::open,
                     .connection_bound = true,
                     .lifetime_ms = 500,
                     .held_ms = 1'500,
                     .owner = add(owner),
                     .subjects_count = 1};
  row.subjects[0] = add(subject);
  return row;
}

TEST(RestQuotaReply, shows_holders) {
  Exchange exchange{QuotaOp::holders};
  exchange.batch.holders = {holder("job 7", "m", exchange.batch),
                            holder("", "\xFF", exchange.batch)};
  exchange.answer().rows_count = 1;
  exchange.answer().next_cursor = 255;
  const QuotaReply reply = exchange.reply();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(
      reply.body,
      R"({"reservations":[{"reservation":"00000000000000ab","owner":"job 7",)"
      R"("subjects":["m"],"state":"open","code":"unlimited","requests":1,"input_tokens":2,)"
      R"("output_tokens":3,"cost":4,"expires_in_ms":500,"held_ms":1500,"connection_bound":true}],)"
      R"("cursor":"00000000000000ff"})");
  exchange.answer().first_holder = 1;
  exchange.answer().next_cursor = 0;
  const Json body = body_of(exchange.reply());
  EXPECT_EQ(body["cursor"], nullptr);
  EXPECT_EQ(body["reservations"][0]["owner"], nullptr);
  EXPECT_EQ(body["reservations"][0]["subjects"][0], "\xEF\xBF\xBD");
  exchange.answer().rows_count = 0;
  EXPECT_EQ(exchange.reply().body, R"({"reservations":[],"cursor":null})");
}

TEST(RestQuotaReply, shows_one_reservation_also_when_it_has_ended) {
  Exchange exchange{QuotaOp::show};
  exchange.batch.holders = {holder("job 7", "m", exchange.batch)};
  exchange.batch.holders[0].subjects_left_out = 6;
  Json body = body_of(exchange.reply());
  EXPECT_EQ(body["owner"], "job 7");
  EXPECT_EQ(body["subjects_left_out"], 6);
  EXPECT_FALSE(body.contains("late"));
  exchange.batch.holders[0] = {.reservation = 0xAB,
                               .admission = QuotaCode::ok,
                               .state = api::ReservationState::settled,
                               .late = true};
  EXPECT_EQ(exchange.reply().body,
            R"({"reservation":"00000000000000ab","owner":null,"subjects":[],"state":"settled",)"
            R"("code":"ok","requests":1,"input_tokens":0,"output_tokens":0,"cost":0,"late":true})");
  exchange.answer().code = QuotaCode::unknown_reservation;
  EXPECT_EQ(exchange.reply().status, 404);
  EXPECT_EQ(exchange.reply().content_type, "application/problem+json");
  EXPECT_EQ(body_of(exchange.reply())["code"], "unknown_reservation");
}

TEST(RestQuotaReply, answers_delete_and_resets_briefly) {
  EXPECT_EQ(Exchange{QuotaOp::remove}.reply().status, 204);
  EXPECT_EQ(Exchange{QuotaOp::remove}.reply().body, "");
  EXPECT_EQ(Exchange{QuotaOp::reset}.reply().body, R"({"subject":"m"})");
  EXPECT_EQ(Exchange{QuotaOp::reset_all}.reply().body, "{}");
}

TEST(RestQuotaReply, shows_the_outcome_of_a_waiter) {
  const QuotaRequest request = Exchange{QuotaOp::reserve}.request;
  api::WaitAnswer waited{
      .answer = {.code = QuotaCode::ok, .limits_count = 1, .reservation = 9, .lifetime_ms = 77},
      .limits = {limit_report("tpm", api::Metric::tokens, 10, 4)}};
  const Json granted = body_of(waited_reply(request, waited, 0));
  EXPECT_EQ(granted["reservation"], "0000000000000009");
  EXPECT_EQ(granted["expires_in_ms"], 77);
  EXPECT_EQ(granted["subjects"][0]["limits"][0]["used"], 4);

  waited.answer = {.code = QuotaCode::wait_limit, .limits_count = 1, .retry_after_ms = 5};
  waited.limits[0].violated = true;
  const QuotaReply denied = waited_reply(request, waited, 0);
  EXPECT_EQ(denied.status, 429);
  EXPECT_EQ(body_of(denied)["code"], "wait_limit");
  EXPECT_EQ(body_of(denied)["violated"].size(), 1u);
  EXPECT_EQ(body_of(denied)["retry_after_ms"], 5);

  EXPECT_FALSE(denied.closes);
  const QuotaReply draining = denied_reply(request, QuotaCode::draining);
  EXPECT_EQ(body_of(draining)["violated"].size(), 0u);
  EXPECT_TRUE(draining.closes);
  EXPECT_EQ(body_of(draining)["retry_after_ms"], 1'000);
  EXPECT_EQ(draining.headers, "Retry-After: 1\r\n");
}

TEST(RestQuotaReply, shows_problems_with_code_title_and_detail) {
  const QuotaReply reply = problem_reply({.status = 400,
                                          .code = "invalid_quota",
                                          .title = "the quota is not valid",
                                          .detail = "a",
                                          .complaints = {"a", "b"}});
  EXPECT_EQ(reply.body,
            R"({"type":"urn:sluicegate:problem:invalid_quota","title":"the quota is not valid",)"
            R"("status":400,"code":"invalid_quota","detail":"a","complaints":["a","b"]})");
}

TEST(RestQuotaReply, counts_the_complaints_left_out) {
  const QuotaReply reply = problem_reply({.complaints = {"a"}, .complaints_left_out = 3});
  EXPECT_EQ(body_of(reply)["complaints"].size(), 1u);
  EXPECT_EQ(body_of(reply)["complaints_left_out"], 3);
}

}  // namespace
}  // namespace sluice::wire
