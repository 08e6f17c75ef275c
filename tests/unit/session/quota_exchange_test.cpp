// Goal: a request about quotas goes from its body to its answer through the right stages.
// Method: the test fills the replies of the shards into batches.
#include "session/quota_exchange.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::session {
namespace {

using api::QuotaCode;
using api::QuotaOp;
using Stage = QuotaExchange::Stage;

class QuotaExchangeTest : public ::testing::Test {
 protected:
  // Overwrites the head, which ends before the body arrives.
  void begin(wire::QuotaEndpoint endpoint, std::string method) {
    exchange_.emplace(context_, log_, wire::RestQuota{.endpoint = endpoint, .method = method});
    method.assign(method.size(), '?');
  }
  void begin_reserve(const char* body) {
    begin(wire::QuotaEndpoint::reserve, "POST");
    exchange_->body() = body;
    EXPECT_FALSE(exchange_->read());
    exchange_->fill(batch_);
    batch_.make_answers();
  }
  std::optional<QuotaExchange::Answer> reply(QuotaCode code, uint64_t reservation = 0) {
    batch_.answers[0].code = code;
    batch_.answers[0].reservation = reservation;
    return exchange_->on_replies(batch_);
  }
  // A reserve that waits, and then has this outcome.
  void resolve(QuotaCode code) {
    begin_reserve(R"({"subjects": ["gpt"], "wait_limit_ms": 500})");
    exchange_->wait();
    EXPECT_EQ(exchange_->stage(), Stage::waiting);
    exchange_->on_outcome({.code = code});
  }

  KeepingBackend backend_;
  Context context_{backend_, {.waiters_max = 1}};
  std::vector<char> log_memory_ = std::vector<char>(RequestLog::memory_bytes);
  RequestLog log_{log_memory_, {}};
  api::QuotaBatch batch_;
  std::optional<QuotaExchange> exchange_;
};

TEST_F(QuotaExchangeTest, answers_invalid_body_with_an_error) {
  begin(wire::QuotaEndpoint::settle, "POST");
  EXPECT_TRUE(exchange_->reads_body());
  exchange_->body() = "{}";
  const auto answer = exchange_->read();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->reply.status, 400);
}

TEST_F(QuotaExchangeTest, names_the_reservation_that_its_answer_grants) {
  begin_reserve(R"({"subjects": ["gpt"]})");
  EXPECT_EQ(exchange_->stage(), Stage::asked);
  EXPECT_EQ(batch_.calls[0].op, QuotaOp::reserve);
  const auto answer = reply(QuotaCode::ok, 77);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->reply.status, 200);
  EXPECT_EQ(answer->reservation, 77u);
}

TEST_F(QuotaExchangeTest, names_no_reservation_for_a_check) {
  begin(wire::QuotaEndpoint::check, "POST");
  exchange_->body() = R"({"subjects": ["gpt"]})";
  EXPECT_FALSE(exchange_->read());
  exchange_->fill(batch_);
  batch_.make_answers();
  EXPECT_EQ(reply(QuotaCode::ok, 77)->reservation, 0u);
}

TEST_F(QuotaExchangeTest, answers_grant_after_one_iteration) {
  resolve(QuotaCode::ok);
  EXPECT_EQ(exchange_->stage(), Stage::granted);
  exchange_->end_turn();
  ASSERT_EQ(exchange_->stage(), Stage::due);
  const auto answer =
      exchange_->waited_answer({.answer = {.code = QuotaCode::ok, .reservation = 77}});
  EXPECT_EQ(answer.reply.status, 200);
  EXPECT_EQ(answer.reservation, 77u);
}

TEST_F(QuotaExchangeTest, answers_denial_at_once) {
  resolve(QuotaCode::wait_limit);
  ASSERT_EQ(exchange_->stage(), Stage::due);
  const auto answer = exchange_->waited_answer({.answer = {.code = QuotaCode::wait_limit}});
  EXPECT_EQ(answer.reply.status, 429);
  EXPECT_EQ(answer.reservation, 0u);
}

TEST_F(QuotaExchangeTest, closes_connection_when_drained_in_queue) {
  resolve(QuotaCode::draining);
  const auto answer = exchange_->waited_answer({.answer = {.code = QuotaCode::draining}});
  EXPECT_TRUE(answer.reply.closes);
}

TEST_F(QuotaExchangeTest, asks_for_a_shorter_page_when_one_is_too_long) {
  begin(wire::QuotaEndpoint::reservations, "GET");
  EXPECT_FALSE(exchange_->reads_body());
  EXPECT_FALSE(exchange_->read());
  exchange_->fill(batch_);
  batch_.make_answers();
  batch_.answer_text.assign(limits::reply_bytes_max / 4, 'x');
  const auto bytes = static_cast<uint32_t>(batch_.answer_text.size());
  batch_.holders.assign(9, {.subjects_count = 1, .subjects = {{{.bytes = bytes}}}});
  batch_.answers[0].rows_count = 9;
  EXPECT_FALSE(reply(QuotaCode::ok));
  EXPECT_EQ(exchange_->stage(), Stage::ready);
  batch_.clear();
  exchange_->fill(batch_);
  EXPECT_EQ(batch_.calls[0].limit, 4u);
}

}  // namespace
}  // namespace sluice::session
