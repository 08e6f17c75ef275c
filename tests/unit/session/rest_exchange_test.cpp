// Goal: every REST request is answered once, and what it holds is released when its client leaves
//       before that.
// Method: an exchange over a transport and a backend that only record calls; no socket, no parser.
#include "session/rest_exchange.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/unit/session/fake_transport.hpp"
#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::session {
namespace {

using api::QuotaCode;
using api::QuotaOp;
using Texts = std::vector<std::string>;

constexpr const char* too_many = "503 too many shard queries at once: try again later";

class RestExchangeTest : public ::testing::Test {
 protected:
  ~RestExchangeTest() override { exchange_.drop(); }

  // Begins a /rate request with a queued entry.
  api::Ticket wait(bool json) {
    const std::string key = "k";
    const api::Ticket ticket = context_.waits.take(7, 0, WaitsFor::permits);
    tickets_.taken(WaitsFor::permits);
    api::Entry entry{.key_data = key.data(), .key_bytes = 1, .ticket = ticket};
    exchange_.wait(entry, 42, json);
    return ticket;
  }

  void begin_reserve(std::string body) {
    exchange_.begin(wire::RestQuota{.endpoint = wire::QuotaEndpoint::reserve, .method = "POST"});
    *exchange_.body() = std::move(body);
    exchange_.on_body();
  }
  void reply(QuotaCode code, uint64_t reservation = 0) {
    transport_.batch->answers[0].code = code;
    transport_.batch->answers[0].reservation = reservation;
    exchange_.on_quota(*transport_.batch);
  }
  // Begins a reserve that is queued.
  api::Ticket queue_reserve() {
    begin_reserve(R"({"subjects": ["gpt"], "wait_limit_ms": 500})");
    exchange_.ask();
    const api::Ticket ticket = transport_.batch->calls[0].ticket;
    reply(QuotaCode::queued);
    return ticket;
  }
  void grant(api::Ticket ticket, api::Verdict verdict) {
    context_.waits.follow(context_.waits[ticket], WaitEvent::granted);
    exchange_.on_granted(context_.waits[ticket], {.ticket = ticket, .verdict = verdict});
  }
  void grant(api::Ticket ticket, QuotaCode code, uint64_t reservation = 0) {
    WaitingEntry& entry = context_.waits[ticket];
    context_.waits.follow(entry, WaitEvent::granted);
    entry.answer->answer = {.code = code, .reservation = reservation};
    exchange_.on_granted(
        entry, {.ticket = ticket, .code = code, .refund_claim = {.reservation = reservation}});
  }

  KeepingBackend backend_;
  Context context_{backend_, {.waiters_max = 100}};
  FakeTransport transport_;
  std::vector<char> log_memory_ = std::vector<char>(RequestLog::memory_bytes);
  RequestLog log_{log_memory_, {}};
  std::array<char, 16> key_memory_{};
  TicketShare tickets_;
  RestExchange exchange_{context_, transport_, log_, tickets_, {.session = 7}, key_memory_};
};

// ------------------------------------------------------------------------------ answered at once

TEST_F(RestExchangeTest, answers_requests_that_need_no_shard_at_once) {
  exchange_.begin(wire::RestReply{.status = 404, .body = "none"});
  exchange_.begin(wire::RestHealth{});
  context_.draining = true;
  exchange_.begin(wire::RestHealth{});
  exchange_.begin(wire::RestOpenapi{});
  ASSERT_EQ(transport_.answers.size(), 4u);
  EXPECT_EQ(transport_.answers[0], "404 none");
  EXPECT_EQ(transport_.answers[1], "200 ");
  EXPECT_EQ(transport_.answers[2], "503 ");
  EXPECT_EQ(transport_.answers[3].substr(0, 5), "200 {");
  EXPECT_FALSE(exchange_.is_open());
}

// -------------------------------------------------------------------- answered by the shards

TEST_F(RestExchangeTest, answers_with_replies_of_the_shards) {
  exchange_.begin(wire::RestMetrics{});
  EXPECT_TRUE(exchange_.is_pending());
  exchange_.on_text("text/plain", "m 1\n");
  exchange_.begin(wire::RestTop{.keys_max = 5});
  exchange_.on_text("application/json", "{}");
  exchange_.begin(wire::RestOfAllNodes{.method = "GET", .target = "/top?cluster=true"});
  EXPECT_TRUE(exchange_.awaits_reply());
  exchange_.on_text("application/json", "{\"nodes\":[]}");
  exchange_.begin(wire::RestInspect{.key = "k", .pretty = true});
  exchange_.on_inspected(nullptr);
  exchange_.begin(wire::RestInspect{.key = "k", .pretty = true});
  const api::KeyState state{.key = "k"};
  exchange_.on_inspected(&state);
  EXPECT_EQ(transport_.asked,
            (Texts{"metrics", "top 5", "nodes GET /top?cluster=true", "inspect k", "inspect k"}));
  EXPECT_EQ(transport_.answers,
            (Texts{"200 m 1\n", "200 {}", "200 {\"nodes\":[]}", "404 Key not found", "k pretty"}));
  EXPECT_FALSE(exchange_.is_pending());
}

TEST_F(RestExchangeTest, refuses_shard_queries_without_room) {
  backend_.has_room = false;
  exchange_.begin(wire::RestMetrics{});
  exchange_.begin(wire::RestTop{.keys_max = 5});
  exchange_.begin(wire::RestOfAllNodes{.method = "GET", .target = "/top"});
  exchange_.begin(wire::RestInspect{.key = "k"});
  exchange_.begin(wire::RestDebug{});
  EXPECT_EQ(transport_.answers, Texts(5, too_many));
  EXPECT_EQ(transport_.asked, Texts{});
  EXPECT_FALSE(exchange_.is_open());
}

TEST_F(RestExchangeTest, lists_keys_page_by_page) {
  exchange_.begin(wire::RestDebug{});
  EXPECT_EQ(context_.debug_walks_count, 1u);
  EXPECT_FALSE(exchange_.end_turn()) << "the shards have not replied";
  exchange_.on_counted(0);
  EXPECT_FALSE(exchange_.end_turn());
  exchange_.on_page({}, 0);
  EXPECT_FALSE(exchange_.end_turn());
  EXPECT_EQ(transport_.answers, (Texts{"200 {\"Instances\":{}}\n"}));
  EXPECT_FALSE(exchange_.is_open());
  EXPECT_EQ(context_.debug_walks_count, 0u);
}

// ---------------------------------------------------------------------------- queued decisions

TEST_F(RestExchangeTest, answers_a_queued_request_with_its_outcome) {
  grant(wait(/*json=*/true), api::Verdict::approved);
  grant(wait(/*json=*/false), api::Verdict::wait_limit);
  EXPECT_EQ(transport_.answers, (Texts{"approved k json 42", "wait_limit  plain 42"}));
  EXPECT_EQ(context_.waits.tickets_count(), 0u);
  EXPECT_FALSE(exchange_.is_open());
}

TEST_F(RestExchangeTest, abandons_waiter_when_client_leaves) {
  const api::Ticket ticket = wait(/*json=*/false);
  EXPECT_EQ(context_.waits[ticket].state, WaitState::waiting);
  EXPECT_TRUE(exchange_.is_waiting());
  exchange_.drop();
  EXPECT_EQ(backend_.abandoned, std::vector{ticket});
  EXPECT_FALSE(exchange_.is_waiting());
  EXPECT_EQ(transport_.answers, Texts{});
}

// --------------------------------------------------------------------------------------- quotas

TEST_F(RestExchangeTest, asks_for_quotas_when_the_body_is_whole) {
  exchange_.begin(wire::RestQuota{.endpoint = wire::QuotaEndpoint::reserve, .method = "POST"});
  EXPECT_TRUE(exchange_.takes_body());
  EXPECT_FALSE(exchange_.is_pending()) << "its body has to be read";
  *exchange_.body() = R"({"subjects": ["gpt"]})";
  exchange_.on_body();
  EXPECT_TRUE(exchange_.is_ready());
  exchange_.ask();
  EXPECT_TRUE(exchange_.is_pending());
  reply(QuotaCode::ok, 77);
  EXPECT_EQ(transport_.last_options.reservation, 77u);
  EXPECT_EQ(transport_.answers.at(0).substr(0, 5), "200 {");
  EXPECT_FALSE(exchange_.is_open());
}

TEST_F(RestExchangeTest, keeps_no_body_that_is_not_needed) {
  exchange_.begin(wire::RestQuota{.endpoint = wire::QuotaEndpoint::subjects, .method = "GET"});
  EXPECT_TRUE(exchange_.takes_body());
  EXPECT_EQ(exchange_.body(), nullptr);
  exchange_.on_body();
  exchange_.ask();
  EXPECT_EQ(transport_.batch->calls[0].op, QuotaOp::page);
  exchange_.drop();
  reply(QuotaCode::ok);
}

TEST_F(RestExchangeTest, answers_invalid_body_with_an_error) {
  begin_reserve("{");
  EXPECT_EQ(transport_.answers.at(0).substr(0, 5), "400 {");
  EXPECT_EQ(transport_.asked, Texts{});
  EXPECT_FALSE(exchange_.is_open());
}

TEST_F(RestExchangeTest, closes_when_a_reserve_is_drained) {
  context_.draining = true;
  begin_reserve(R"({"subjects": ["gpt"]})");
  EXPECT_EQ(transport_.answers.at(0).substr(0, 5), "503 {");
  EXPECT_TRUE(transport_.last_options.closes);
  EXPECT_EQ(context_.drained_entries, 1u);
}

TEST_F(RestExchangeTest, answers_a_queued_reserve_that_is_granted_in_the_next_iteration) {
  grant(queue_reserve(), QuotaCode::ok, 77);
  EXPECT_TRUE(exchange_.is_waiting());
  EXPECT_TRUE(exchange_.end_turn()) << "first the session may notice that its client has left";
  EXPECT_EQ(transport_.answers, Texts{});
  EXPECT_FALSE(exchange_.end_turn());
  EXPECT_EQ(transport_.answers.at(0).substr(0, 5), "200 {");
  EXPECT_EQ(transport_.last_options.reservation, 77u);
  EXPECT_EQ(transport_.asked, Texts{"ask"}) << "asks the shards only once";
  EXPECT_EQ(context_.waits.tickets_count(), 0u);
  EXPECT_FALSE(exchange_.is_open());
}

TEST_F(RestExchangeTest, answers_a_queued_reserve_that_is_denied_at_once) {
  grant(queue_reserve(), QuotaCode::wait_limit);
  EXPECT_EQ(transport_.answers.at(0).substr(0, 5), "429 {");
  EXPECT_EQ(transport_.last_options.reservation, 0u);
  EXPECT_EQ(context_.waits.tickets_count(), 0u);
  EXPECT_FALSE(exchange_.is_open());
}

TEST_F(RestExchangeTest, lends_room_for_all_limits_as_long_as_it_may_wait) {
  begin_reserve(R"({"subjects": ["{a}", "{a}b"], "wait_limit_ms": 500})");
  exchange_.ask();
  const api::WaitAnswer* const lent = transport_.batch->wait_answers.at(0);
  EXPECT_EQ(lent, context_.waits[transport_.batch->calls[0].ticket].answer.get());
  EXPECT_GE(lent->limits.capacity(), 2 * size_t{limits::quota_limits_max});
  reply(QuotaCode::ok, 77);
  EXPECT_EQ(context_.waits.tickets_count(), 0u);
  begin_reserve(R"({"subjects": ["gpt"]})");
  transport_.batch->clear();
  exchange_.ask();
  EXPECT_TRUE(transport_.batch->wait_answers.empty());
  reply(QuotaCode::ok, 78);
}

TEST_F(RestExchangeTest, asks_without_waiting_when_all_places_of_waiters_are_taken) {
  while (context_.waits.take(8, 0, WaitsFor::quota) != api::no_ticket) {
  }
  begin_reserve(R"({"subjects": ["gpt"], "wait_limit_ms": 500})");
  exchange_.ask();
  const api::QuotaCall& call = transport_.batch->calls[0];
  EXPECT_EQ(call.ticket, api::no_ticket);
  EXPECT_NE(call.flags & api::quota_flag::waiters_full, 0);
  reply(QuotaCode::waiters_full);
  EXPECT_EQ(transport_.answers.at(0).substr(0, 5), "503 {");
}

TEST_F(RestExchangeTest, abandons_waiting_reserve_when_client_leaves) {
  const api::Ticket ticket = queue_reserve();
  exchange_.drop();
  EXPECT_EQ(backend_.abandoned, std::vector{ticket});
}

TEST_F(RestExchangeTest, abandons_undelivered_grant) {
  const api::Ticket ticket = queue_reserve();
  grant(ticket, QuotaCode::ok, 77);
  exchange_.drop();
  EXPECT_EQ(backend_.abandoned, std::vector{ticket}) << "the owner refunds it";
  EXPECT_EQ(transport_.answers, Texts{});
}

TEST_F(RestExchangeTest, cancels_reservation_granted_after_client_left) {
  begin_reserve(R"({"subjects": ["gpt"], "wait_limit_ms": 500})");
  exchange_.ask();
  exchange_.drop();
  reply(QuotaCode::ok, 77);
  EXPECT_EQ(backend_.cancelled, std::vector<uint64_t>{77});
  EXPECT_EQ(context_.waits.tickets_count(), 0u);
  EXPECT_EQ(transport_.answers, Texts{});
}

TEST_F(RestExchangeTest, abandons_entry_queued_after_client_left) {
  begin_reserve(R"({"subjects": ["gpt"], "wait_limit_ms": 500})");
  exchange_.ask();
  exchange_.drop();
  const api::Ticket ticket = transport_.batch->calls[0].ticket;
  reply(QuotaCode::queued);
  EXPECT_EQ(backend_.abandoned, std::vector{ticket});
}

}  // namespace
}  // namespace sluice::session
