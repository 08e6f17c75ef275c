// Goal: quota calls that another node forwards are decided on this one, as they were asked for, and
//       answered whole; what they bind lives as long as that node has a lane.
// Method: a session over a backend that only records calls; the test decides them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/session/native_quota_fixture.hpp"
#include "wire/lane_codec.hpp"
#include "wire/quota_outcomes.hpp"

namespace sluice::session {
namespace {

using api::QuotaCode;
using api::QuotaOp;

constexpr uint64_t sender = 77;
constexpr uint64_t binding = wire::binding_of_node | 5;

class NativeSessionNodeQuotaTest : public NativeQuotaFixture {
 protected:
  explicit NativeSessionNodeQuotaTest(const std::string& token = "the secret of all nodes")
      : NativeQuotaFixture("the secret of all nodes", 100) {
    greet(token);
    greeting_ = answers_.empty() ? 0 : answered_frame(0).getWelcome().getFeatures();
    answers_.clear();
  }

  void send_words(const wire::FrameWords& words) {
    std::vector<uint64_t> bytes = words;
    context_.work.begin_turn(false);
    session_.on_received(std::as_writable_bytes(std::span(bytes)));
    end_turn();
  }
  void send_calls(uint64_t id, const api::QuotaBatch& calls) {
    send_words(wire::encode_forward_quota(id, sender, calls));
  }
  static api::QuotaCall reserve(uint8_t flags = 0, uint64_t bound_to = 0) {
    return {.op = QuotaOp::reserve, .flags = flags, .subjects_count = 1, .binding = bound_to};
  }
  void send_call(uint64_t id, const api::QuotaCall& call, bool wants_outcome = false) {
    api::QuotaBatch batch;
    batch.calls = {call};
    if (call.subjects_count > 0) batch.subjects = {"gpt"};
    if (wants_outcome) batch.wait_answers = {&wanted_};
    send_calls(id, batch);
  }

  // The n-th frame of the session.
  wire::QuotaOutcomes outcomes(size_t index) {
    const auto decoded = wire::decode_owner_frame(std::as_bytes(std::span(answers_.at(index))));
    const auto* const frame =
        decoded ? std::get_if<wire::QuotaOutcomesFrame>(&decoded->body) : nullptr;
    const auto read = frame == nullptr ? std::nullopt : wire::read_outcomes(*frame);
    EXPECT_TRUE(read);
    return read.value_or(wire::QuotaOutcomes{});
  }

  uint64_t greeting_ = 0;
  api::WaitAnswer wanted_;
};

TEST_F(NativeSessionNodeQuotaTest, announces_that_it_takes_them) {
  EXPECT_NE(greeting_ & wire::feature_bit::forward_quota, 0U);
}

TEST_F(NativeSessionNodeQuotaTest, calls_are_decided_on_this_node) {
  api::QuotaBatch sent;
  sent.calls = {reserve(), {.op = QuotaOp::settle, .reservation = 9}};
  sent.subjects = {"gpt"};
  send_calls(7, sent);
  ASSERT_EQ(backend_.batches.size(), 1U);
  EXPECT_TRUE(asked().stays_here);
  ASSERT_EQ(asked().calls.size(), 2U);
  EXPECT_EQ(asked().subjects[0], "gpt");
  EXPECT_EQ(asked().calls[1].reservation, 9U);
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 4, .lifetime_ms = 800};
  asked().answers[1] = {.code = QuotaCode::unknown_reservation};
  answer();
  const wire::QuotaOutcomes answered = outcomes(0);
  EXPECT_EQ(answered.answers[0].reservation, 4U);
  EXPECT_EQ(answered.answers[0].lifetime_ms, 800U);
  EXPECT_EQ(answered.answers[1].code, QuotaCode::unknown_reservation);
  EXPECT_EQ(session_.connection().reserved_output_bytes(), 0U);
}

TEST_F(NativeSessionNodeQuotaTest, the_worker_that_announces_itself_is_answered) {
  send_calls(7, {});
  EXPECT_TRUE(backend_.batches.empty());  // it has taken none
  EXPECT_EQ(answered_frame(0).getId(), 7U);
  EXPECT_TRUE(answered_frame(0).isDone());
}

TEST_F(NativeSessionNodeQuotaTest, an_outcome_follows_when_a_call_has_waited) {
  send_call(7, reserve(api::quota_flag::may_wait));
  const api::Ticket ticket = asked().calls[0].ticket;
  ASSERT_NE(ticket, api::no_ticket);
  EXPECT_TRUE(asked().wait_answers.empty());
  answer_with({QuotaCode::queued});
  EXPECT_EQ(outcomes(0).answers[0].code, QuotaCode::queued);
  grant(ticket, QuotaCode::ok, 4);
  const wire::QuotaOutcomes outcome = outcomes(1);
  EXPECT_EQ(outcome.entries, std::vector<uint32_t>{0});
  EXPECT_EQ(outcome.answers[0].code, QuotaCode::ok);
  EXPECT_EQ(outcome.answers[0].reservation, 4U);
}

TEST_F(NativeSessionNodeQuotaTest, an_outcome_has_the_limits_that_the_client_will_see) {
  send_call(7, reserve(api::quota_flag::may_wait), true);
  ASSERT_EQ(asked().wait_answers.size(), 1U);
  api::WaitAnswer& waited = *asked().wait_answers[0];
  const api::Ticket ticket = asked().calls[0].ticket;
  answer_with({QuotaCode::queued});
  waited.answer = {.code = QuotaCode::ok, .limits_count = 1, .reservation = 4, .lifetime_ms = 60};
  waited.limits = {{.amount = 9}};
  grant(ticket, QuotaCode::ok, 4);
  const wire::QuotaOutcomes outcome = outcomes(1);
  EXPECT_EQ(outcome.answers[0].lifetime_ms, 60U);
  ASSERT_EQ(outcome.limits.size(), 1U);
  EXPECT_EQ(outcome.limits[0].amount, 9U);
}

TEST_F(NativeSessionNodeQuotaTest, a_waiter_is_withdrawn_as_a_clients_own) {
  send_call(7, reserve(api::quota_flag::may_wait));
  const api::Ticket ticket = asked().calls[0].ticket;
  answer_with({QuotaCode::queued});
  send(8, [](ClientFrame frame) { frame.initWithdraw().setTarget(7); });
  EXPECT_EQ(backend_.withdrawn, std::vector{ticket});
  session_.close();
  EXPECT_EQ(backend_.abandoned, std::vector{ticket});
}

TEST_F(NativeSessionNodeQuotaTest, a_call_whose_node_has_no_room_does_not_wait) {
  send_call(7, reserve(api::quota_flag::may_wait | api::quota_flag::waiters_full));
  EXPECT_EQ(asked().calls[0].ticket, api::no_ticket);
  EXPECT_NE(asked().calls[0].flags & api::quota_flag::waiters_full, 0);
  answer_with({QuotaCode::waiters_full});
}

TEST_F(NativeSessionNodeQuotaTest, a_wait_is_no_longer_than_this_node_allows) {
  api::QuotaCall call = reserve(api::quota_flag::may_wait);
  call.wait_ms_max = 900;
  send_call(7, call);
  EXPECT_EQ(asked().calls[0].wait_ms_max, 500U);  // of the fixture's options
  answer_with({QuotaCode::ok});
}

TEST_F(NativeSessionNodeQuotaTest, reservations_that_were_not_sent_are_cancelled) {
  send_call(7, reserve(0, binding));
  session_.close();
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 4};
  answer();
  EXPECT_EQ(backend_.cancelled, std::vector<uint64_t>{4});
  EXPECT_TRUE(backend_.ended_bindings.empty());  // the client may still be there
}

TEST_F(NativeSessionNodeQuotaTest, bindings_end_some_time_after_the_lane) {
  send_call(7, reserve(0, binding));
  answer_with({QuotaCode::ok});
  session_.close();
  std::vector<uint64_t> ended;
  const auto end = [&](uint64_t each) { ended.push_back(each); };
  context_.node_bindings.end_due(context_.now_ms() + NodeBindings::kept_ms - 1, end);
  EXPECT_TRUE(ended.empty());
  context_.node_bindings.end_due(context_.now_ms() + NodeBindings::kept_ms, end);
  EXPECT_EQ(ended, std::vector{binding});
}

TEST_F(NativeSessionNodeQuotaTest, the_end_of_a_binding_does_not_use_it) {
  send_call(8, {.op = QuotaOp::end_binding, .binding = binding});
  EXPECT_EQ(asked().calls[0].op, QuotaOp::end_binding);
  EXPECT_EQ(asked().calls[0].binding, binding);
  answer_with({QuotaCode::ok});
  session_.close();
  context_.node_bindings.end_due(base::never_ms - 1, [](uint64_t) { ADD_FAILURE(); });
}

TEST_F(NativeSessionNodeQuotaTest, calls_outside_their_bounds_end_the_connection) {
  api::QuotaCall call = reserve();
  call.lifetime_ms = 1;
  send_call(7, call);
  EXPECT_EQ(answered_frame(0).getError().getCode(), schema::ErrorCode::MALFORMED);
  EXPECT_TRUE(session_.connection().finishing() || session_.ended());
  EXPECT_TRUE(backend_.batches.empty());
}

class NativeSessionOfAClientTest : public NativeSessionNodeQuotaTest {
 protected:
  NativeSessionOfAClientTest() : NativeSessionNodeQuotaTest("") {}
};

TEST_F(NativeSessionOfAClientTest, forwards_no_calls) {
  EXPECT_EQ(greeting_ & wire::feature_bit::forward_quota, 0U);
  send_call(7, reserve());
  EXPECT_EQ(answered_frame(0).getError().getCode(), schema::ErrorCode::SECRET_EXPECTED);
  EXPECT_TRUE(backend_.batches.empty());
}

class NativeSessionWithoutSecretTest : public NativeQuotaFixture {};

// With Forward that is allowed; quota calls have more to lose.
TEST_F(NativeSessionWithoutSecretTest, takes_no_forwarded_calls) {
  std::vector<uint64_t> words = wire::encode_forward_quota(7, sender, {});
  context_.work.begin_turn(false);
  session_.on_received(std::as_writable_bytes(std::span(words)));
  end_turn();
  EXPECT_EQ(answered_frame(0).getError().getCode(), schema::ErrorCode::SECRET_EXPECTED);
}

}  // namespace
}  // namespace sluice::session
