// Goal: frames about quotas become calls with the same contents, and their answers become frames
//       with the same ids; tickets and bindings are never lost, whenever the connection ends.
// Method: a session over a backend that only records calls, which the test answers; frames are
//         built and read by the library.
#include "tests/unit/session/native_quota_fixture.hpp"

namespace sluice::session {
namespace {

using api::QuotaCode;
using api::QuotaOp;

using NativeSessionQuotaTest = NativeQuotaFixture;

TEST_F(NativeSessionQuotaTest, turns_reserve_frame_into_calls) {
  send(7, [](ClientFrame frame) {
    auto reserve = frame.initReserve();
    reserve.setFlags(wire::quota_bit::wants_violated);
    reserve.setLifetimeMs(60'000);
    reserve.setSubjects(kj::StringPtr("{a}{a}.xb").asBytes());
    reserve.setSubjectSizes({3, 5, 1});
    reserve.setSubjectCounts({2, 1});
    reserve.setRequests({4, api::keep});
    reserve.setInputTokens({900, 0});
    reserve.setMaxOutputTokens({wire::unset, 7});
    reserve.setIds(kj::StringPtr("call").asBytes());
    reserve.setIdSizes({0, 4});
    reserve.setOwner("worker");
  });
  const auto& batch = asked();
  ASSERT_EQ(batch.calls.size(), 2u);
  EXPECT_EQ(batch.subjects, (std::vector<std::string_view>{"{a}", "{a}.x", "b"}));
  const api::QuotaCall& first = batch.calls[0];
  EXPECT_EQ(first.op, QuotaOp::reserve);
  EXPECT_EQ(first.first_subject, 0u);
  EXPECT_EQ(first.subjects_count, 2u);
  EXPECT_EQ(first.given_bits, api::given::requests | api::given::input_tokens);
  EXPECT_EQ(first.amounts, (api::Amounts{.requests = 4, .input_tokens = 900}));
  EXPECT_EQ(first.flags, api::quota_flag::wants_violated);
  EXPECT_EQ(first.lifetime_ms, 60'000u);
  EXPECT_EQ(first.client_id, "");
  EXPECT_EQ(first.owner, "worker");
  EXPECT_EQ(first.binding, 0u);
  const api::QuotaCall& second = batch.calls[1];
  EXPECT_EQ(second.first_subject, 2u);
  EXPECT_EQ(second.given_bits, api::given::input_tokens | api::given::output_tokens);
  EXPECT_EQ(second.amounts, (api::Amounts{.output_tokens = 7}));
  EXPECT_EQ(second.client_id, "call");
}

TEST_F(NativeSessionQuotaTest, answers_a_reserve_with_its_reservations) {
  send_reserve(7);
  EXPECT_TRUE(answers_.empty());
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 0x0300'0000'0000'0001};
  asked().answers[1] = {.code = QuotaCode::tpm_exceeded, .retry_after_ms = 250};
  answer();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answered_frame(0).getId(), 7u);
  const auto answers = answered_frame(0).getQuotaAnswers();
  ASSERT_EQ(answers.getCodes().size(), 2u);
  EXPECT_EQ(answers.getCodes()[1], static_cast<uint8_t>(QuotaCode::tpm_exceeded));
  EXPECT_EQ(answers.getReservations()[0], 0x0300'0000'0000'0001u);
  EXPECT_EQ(answers.getReservations()[1], 0u);
  EXPECT_EQ(answers.getRetryAfterMs()[1], 250);
}

TEST_F(NativeSessionQuotaTest, turns_settle_cancel_and_extend_into_calls_and_answers) {
  send(7, [](ClientFrame frame) {
    auto settle = frame.initSettle();
    settle.setReservations({5, 6});
    settle.setInputTokens({880, 0});
    settle.setCachedInputTokens({80, 0});
  });
  send(8, [](ClientFrame frame) {
    auto cancel = frame.initCancel();
    cancel.setFlags(wire::quota_bit::keep_requests);
    cancel.setReservations({6});
  });
  send(9, [](ClientFrame frame) {
    auto extend = frame.initExtend();
    extend.setReservations({6});
    extend.setLifetimeMs(1'000);
  });
  EXPECT_EQ(asked(0).calls[0].op, QuotaOp::settle);
  EXPECT_EQ(asked(0).calls[0].given_bits, api::given::input_tokens);
  EXPECT_EQ(asked(0).calls[0].cached_input_tokens, 80u);
  EXPECT_EQ(asked(0).calls[1].reservation, 6u);
  EXPECT_EQ(asked(1).calls[0].op, QuotaOp::cancel);
  EXPECT_EQ(asked(1).calls[0].flags, api::quota_flag::keep_requests);
  EXPECT_EQ(asked(2).calls[0].op, QuotaOp::extend);
  EXPECT_EQ(asked(2).calls[0].lifetime_ms, 1'000u);

  // The store names the reservations; the reply need not, since it is in the order of the frame.
  asked().answers[0] = {
      .code = QuotaCode::ok, .reservation = 5, .retry_after_ms = api::retry_never};
  asked().answers[1] = {.code = QuotaCode::ok, .reservation = 6};
  answer();
  EXPECT_FALSE(answered_frame(0).getQuotaAnswers().hasReservations());
  EXPECT_FALSE(answered_frame(0).getQuotaAnswers().hasRetryAfterMs());
  EXPECT_EQ(answered_frame(0).getQuotaAnswers().getCodes().size(), 1u);
  answer_with({QuotaCode::already_settled});
  EXPECT_EQ(answered_frame(1).getId(), 8u);
  answer_with({QuotaCode::unknown_reservation});
  EXPECT_EQ(answered_frame(2).getId(), 9u);
}

TEST_F(NativeSessionQuotaTest, refuses_an_id_in_use_of_a_frame_without_entries) {
  send_reserve(7);
  send(7, [](ClientFrame frame) { frame.initReserve(); });
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(error_code(0), schema::ErrorCode::ID_IN_USE);
  EXPECT_EQ(backend_.batches.size(), 1u);
}

// Io delivers no more after receive_stop(); a session that gets more all the same must not grow.
TEST_F(NativeSessionQuotaTest, closes_when_more_arrives_than_its_buffer_holds) {
  send_reserve(7);
  send(8, [](ClientFrame frame) { frame.initInspect(); });  // waits for the answer to the other
  ASSERT_TRUE(backend_.queries.empty());
  const uint32_t executions = backend_.executions;
  std::vector<uint64_t> bytes(8'192);
  size_t delivered = 0;
  while (!session_.ended() && delivered < 2 * size_t{limits::input_bytes}) {
    EXPECT_EQ(backend_.executions, executions);
    session_.on_received(std::as_writable_bytes(std::span(bytes)));
    delivered += bytes.size() * sizeof(uint64_t);
  }
  EXPECT_TRUE(session_.ended());
  EXPECT_GT(delivered, limits::input_bytes - bytes.size() * sizeof(uint64_t));
  EXPECT_EQ(backend_.executions, executions + 1) << "first it tries to make room";
}

TEST_F(NativeSessionQuotaTest, answers_frames_without_entries_at_once) {
  send(7, [](ClientFrame frame) { frame.initReserve(); });
  send(8, [](ClientFrame frame) { frame.initCancel(); });
  EXPECT_TRUE(backend_.batches.empty());
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_EQ(answered_frame(1).getId(), 8u);
  EXPECT_EQ(answered_frame(1).getQuotaAnswers().getCount(), 0u);
}

TEST_F(NativeSessionQuotaTest, reports_wanted_limits) {
  send_reserve(7, wire::quota_bit::wants_limits);
  asked().limits.resize(1);
  asked().limits[0].amount = 30'000;
  asked().answers[1] = {.code = QuotaCode::ok, .first_limit = 0, .limits_count = 1};
  asked().answers[0].code = QuotaCode::ok;
  answer();
  const auto limits = answered_frame(0).getQuotaAnswers().getLimits();
  ASSERT_EQ(limits.getAmounts().size(), 1u);
  EXPECT_EQ(limits.getAmounts()[0], 30'000u);
  EXPECT_EQ(limits.getEntries()[0], 1u);
}

// -------------------------------------------------------------------------------------- waiting

TEST_F(NativeSessionQuotaTest, reports_outcomes_of_waiting_entries) {
  send_reserve(7, wire::quota_bit::may_wait);
  const api::Ticket first = asked().calls[0].ticket, second = asked().calls[1].ticket;
  EXPECT_EQ(asked().calls[0].flags, api::quota_flag::may_wait);
  EXPECT_EQ(asked().calls[0].wait_ms_max, 500u);
  EXPECT_EQ(context_.waits.tickets_count(), 2u);
  answer_with({QuotaCode::queued, QuotaCode::queued});
  grant(second, api::QuotaCode::wait_limit, 0);
  grant(first, api::QuotaCode::ok, 77);
  ASSERT_EQ(answers_.size(), 3u);
  EXPECT_EQ(answered_frame(1).getId(), 7u);
  EXPECT_EQ(answered_frame(1).getGranted().getEntries()[0], 1u);
  EXPECT_EQ(answered_frame(1).getGranted().getCodes()[0],
            static_cast<uint8_t>(QuotaCode::wait_limit));
  EXPECT_FALSE(answered_frame(1).getGranted().hasVerdicts());
  EXPECT_FALSE(answered_frame(1).getGranted().hasReservations());
  EXPECT_EQ(answered_frame(2).getGranted().getEntries()[0], 0u);
  EXPECT_EQ(answered_frame(2).getGranted().getReservations()[0], 77u);
  EXPECT_EQ(context_.waits.tickets_count(), 0u);
  EXPECT_EQ(context_.waits.frames_count(), 0u);
}

TEST_F(NativeSessionQuotaTest, frees_tickets_of_entries_that_do_not_wait) {
  send_reserve(7, wire::quota_bit::may_wait);
  answer_with({QuotaCode::ok, QuotaCode::exceeds_limit});
  EXPECT_EQ(context_.waits.tickets_count(), 0u);
  EXPECT_EQ(context_.waits.frames_count(), 0u);
}

TEST_F(NativeSessionQuotaTest, withdraws_waiting_entries) {
  send_reserve(7, wire::quota_bit::may_wait);
  const api::Ticket second = asked().calls[1].ticket;
  answer_with({QuotaCode::ok, QuotaCode::queued});
  send(8, [](ClientFrame frame) { frame.initWithdraw().setTarget(7); });
  EXPECT_EQ(backend_.withdrawn, std::vector<api::Ticket>{second});
  EXPECT_TRUE(answered_frame(1).isDone());
}

// A Withdraw is ordered behind all frames sent before it.
TEST_F(NativeSessionQuotaTest, withdraws_after_earlier_frames_are_decided) {
  send_reserve(7, wire::quota_bit::may_wait);
  send(8, [](ClientFrame frame) { frame.initWithdraw().setTarget(7); });
  EXPECT_TRUE(answers_.empty());
  answer_with({QuotaCode::queued, QuotaCode::queued});
  EXPECT_EQ(backend_.withdrawn.size(), 2u);
  EXPECT_EQ(answers_.size(), 2u);
}

class NativeSessionWithManyWaiters : public NativeQuotaFixture {
 protected:
  NativeSessionWithManyWaiters() : NativeQuotaFixture(100'000) {}
};

TEST_F(NativeSessionWithManyWaiters, marks_calls_beyond_connection_waiters_max) {
  uint64_t id = 2;
  for (; context_.waits.tickets_count() < limits::connection_waiters_max; ++id) {
    send_waiting(id, limits::quota_calls_max);
    for (api::QuotaAnswer& answer : asked().answers) answer.code = QuotaCode::queued;
    answer();
  }
  send_waiting(id, 1);
  const api::QuotaCall& call = asked().calls[0];
  EXPECT_EQ(call.ticket, api::no_ticket);
  EXPECT_EQ(call.flags, api::quota_flag::may_wait | api::quota_flag::connection_waiters_full);
}

TEST_F(NativeSessionQuotaTest, marks_calls_beyond_the_share_of_a_connection) {
  const auto tickets_of_frame = [&] {
    const auto has_ticket = [](const api::QuotaCall& call) {
      return call.ticket != api::no_ticket;
    };
    const auto& calls = asked().calls;
    const auto count = std::count_if(calls.begin(), calls.end(), has_ticket);
    EXPECT_EQ((calls.back().flags & api::quota_flag::connection_waiters_full) != 0,
              count < std::ssize(calls));
    return count;
  };
  send_waiting(2, 120);
  EXPECT_EQ(tickets_of_frame(), 50);
  for (api::QuotaAnswer& answer : asked().answers) answer.code = QuotaCode::ok;
  for (size_t index = 0; index < 10; ++index) asked().answers[index].code = QuotaCode::queued;
  answer();
  backend_.other_waiting = 20;
  send_waiting(3, 120);
  EXPECT_EQ(tickets_of_frame(), 30);  // and ten that wait: 40 of the 80 that others leave
}

TEST_F(NativeSessionQuotaTest, withdraws_the_last_entries_of_a_frame_first) {
  send_waiting(2, 3);
  const auto& calls = asked().calls;
  const std::vector<api::Ticket> tickets{calls[2].ticket, calls[1].ticket, calls[0].ticket};
  answer_with({QuotaCode::queued, QuotaCode::queued, QuotaCode::queued});
  send(3, [](ClientFrame frame) { frame.initWithdraw().setTarget(2); });
  EXPECT_EQ(backend_.withdrawn, tickets);
}

TEST_F(NativeSessionQuotaTest, refuses_ids_that_are_outstanding_or_waiting) {
  send_reserve(7, wire::quota_bit::may_wait);
  send_settle(7, 1);
  EXPECT_EQ(error_code(0), schema::ErrorCode::ID_IN_USE);
  answer_with({QuotaCode::queued, QuotaCode::ok});
  send_settle(7, 1);
  EXPECT_EQ(error_code(2), schema::ErrorCode::ID_IN_USE);
  EXPECT_TRUE(backend_.batches.empty());
}

// --------------------------------------------------------------------- how a connection goes on

TEST_F(NativeSessionQuotaTest, holds_frame_until_a_task_is_free) {
  backend_.has_room = false;
  send_reserve(7);
  EXPECT_TRUE(backend_.batches.empty());
  backend_.has_room = true;
  session_.unblock();
  end_turn();
  EXPECT_EQ(backend_.batches.size(), 1u);
}

TEST_F(NativeSessionQuotaTest, reads_on_behind_a_batch_of_one_shard) {
  send_reserve(7);
  send_settle(8, 1);
  EXPECT_EQ(backend_.batches.size(), 2u);
}

TEST_F(NativeSessionQuotaTest, holds_frames_behind_a_batch_of_several_shards) {
  backend_.spans = true;
  send_reserve(7);
  send_settle(8, 1);
  EXPECT_EQ(backend_.batches.size(), 1u);
  answer_with({QuotaCode::ok, QuotaCode::ok});
  EXPECT_EQ(backend_.batches.size(), 1u);
  EXPECT_EQ(asked().calls[0].op, QuotaOp::settle);
}

TEST_F(NativeSessionQuotaTest, holds_frames_behind_a_usage_query) {
  send(7, [](ClientFrame frame) {
    auto usage = frame.initUsage();
    usage.setSubjects(kj::StringPtr("gptclaude").asBytes());
    usage.setSubjectSizes({3, 6});
  });
  send_settle(8, 1);
  ASSERT_EQ(backend_.batches.size(), 1u);
  ASSERT_EQ(asked().calls.size(), 2u);
  EXPECT_EQ(asked().calls[1].op, QuotaOp::usage);
  EXPECT_EQ(asked().calls[1].first_subject, 1u);
  asked().answers[1].rows_count = 1;
  asked().answer_text = "claude";
  asked().rows.push_back({.name_bytes = 6});
  answer();
  const auto usage = answered_frame(0).getUsageReply();
  ASSERT_EQ(usage.getNameSizes().size(), 1u);
  EXPECT_EQ(usage.getNameSizes()[0], 6u);
  EXPECT_EQ(backend_.batches.size(), 1u);
}

TEST_F(NativeSessionQuotaTest, limits_page_to_subjects_of_one_answer) {
  send(7, [](ClientFrame frame) { frame.initUsage().setCursor(99); });
  EXPECT_EQ(asked().calls[0].op, QuotaOp::page);
  EXPECT_EQ(asked().calls[0].cursor, 99u);
  EXPECT_EQ(asked().calls[0].limit, limits::subjects_page_max);
}

TEST_F(NativeSessionQuotaTest, changes_and_resets_quotas) {
  send(7, [](ClientFrame frame) {
    auto change = frame.initQuota();
    change.setSubject(kj::StringPtr("gpt").asBytes());
    auto limit = change.initQuota().initLimits(1)[0];
    limit.setName("rpm");
    limit.setKind(schema::LimitKind::SLIDING);
    limit.setPeriodMs(60'000);
  });
  ASSERT_EQ(backend_.batches.size(), 1u);
  EXPECT_EQ(asked().calls[0].op, QuotaOp::put);
  EXPECT_EQ(asked().subjects[0], "gpt");
  EXPECT_EQ(asked().new_quotas.at(0).limits.at(0).name, "rpm");
  answer_with({QuotaCode::ok});
  send(8, [](ClientFrame frame) {
    frame.initQuota().setSubject(kj::StringPtr("gpt").asBytes());
    frame.getQuota().setRemove(true);
  });
  EXPECT_EQ(asked().calls[0].op, QuotaOp::remove);
  answer_with({QuotaCode::no_such_quota});
  send(9, [](ClientFrame frame) { frame.initReset().setSubject(kj::StringPtr("gpt").asBytes()); });
  EXPECT_EQ(asked().calls[0].op, QuotaOp::reset);
  answer_with({QuotaCode::ok});
  send(10, [](ClientFrame frame) { frame.initReset().setAll(true); });
  EXPECT_EQ(asked().calls[0].op, QuotaOp::reset_all);
  answer_with({QuotaCode::ok});
  ASSERT_EQ(answers_.size(), 4u);
  EXPECT_EQ(answered_frame(1).getQuotaAnswers().getCodes()[0],
            static_cast<uint8_t>(QuotaCode::no_such_quota));
  EXPECT_EQ(answered_frame(3).getId(), 10u);
}

TEST_F(NativeSessionQuotaTest, reports_changes_that_are_not_in_the_state_file) {
  for (const QuotaCode code : {QuotaCode::not_durable, QuotaCode::memory_only}) {
    const size_t answered = answers_.size();
    send(7, [](ClientFrame frame) {
      frame.initQuota().setSubject(kj::StringPtr("gpt").asBytes());
      frame.getQuota().setRemove(true);
    });
    answer_with({code});
    send(8, [](ClientFrame frame) { frame.initReset().setAll(true); });
    answer_with({code});
    for (size_t index = answered; index < answered + 2; ++index) {
      ASSERT_GT(answers_.size(), index);
      EXPECT_EQ(answered_frame(index).getQuotaAnswers().getCodes()[0], static_cast<uint8_t>(code));
    }
  }
}

TEST_F(NativeSessionQuotaTest, refuses_invalid_quota) {
  send(7, [](ClientFrame frame) {
    auto change = frame.initQuota();
    change.setSubject(kj::StringPtr("gpt").asBytes());
    change.initQuota().initLimits(1)[0].setName("rpm");  // a limit without a period
  });
  EXPECT_TRUE(backend_.batches.empty());
  EXPECT_EQ(answered_frame(0).getQuotaAnswers().getCodes()[0],
            static_cast<uint8_t>(QuotaCode::invalid_quota));
}

TEST_F(NativeSessionQuotaTest, reserves_nothing_after_go_away_but_settles) {
  context_.draining = true;
  session_.begin_drain();
  send_reserve(7, wire::quota_bit::may_wait);
  EXPECT_TRUE(backend_.batches.empty());
  EXPECT_TRUE(answered_frame(0).isGoAway());
  EXPECT_EQ(answered_frame(1).getQuotaAnswers().getCount(), 2u);
  EXPECT_EQ(answered_frame(1).getQuotaAnswers().getCodes()[0],
            static_cast<uint8_t>(QuotaCode::draining));
  send_settle(8, 1);
  EXPECT_EQ(backend_.batches.size(), 1u);
}

// A check charges nothing, and REST answers it while draining, too.
TEST_F(NativeSessionQuotaTest, checks_after_go_away) {
  context_.draining = true;
  session_.begin_drain();
  send(7, [](ClientFrame frame) {
    auto check = frame.initCheck();
    check.setSubjects(kj::StringPtr("gpt").asBytes());
    check.setSubjectSizes({3});
  });
  ASSERT_EQ(backend_.batches.size(), 1u);
  EXPECT_EQ(asked().calls[0].op, QuotaOp::check);
  answer_with({QuotaCode::ok});
  EXPECT_EQ(answered_frame(1).getQuotaAnswers().getCodes()[0], static_cast<uint8_t>(QuotaCode::ok));
}

// ------------------------------------------------------------------------ how a connection ends

TEST_F(NativeSessionQuotaTest, ends_binding_once_with_its_connection) {
  send_reserve(7, wire::quota_bit::connection_bound);
  send_reserve(8, wire::quota_bit::connection_bound);
  const uint64_t binding = asked(0).calls[0].binding;
  EXPECT_EQ(binding >> 48, 3u);  // of the shard
  EXPECT_EQ(asked(1).calls[1].binding, binding);
  answer_with({QuotaCode::ok, QuotaCode::ok});
  answer_with({QuotaCode::ok, QuotaCode::ok});
  EXPECT_TRUE(backend_.ended_bindings.empty());
  session_.on_end_of_stream();
  end_turn();
  session_.close();
  EXPECT_EQ(backend_.ended_bindings, std::vector<uint64_t>{binding});
}

TEST_F(NativeSessionQuotaTest, bindings_of_two_connections_differ) {
  EXPECT_NE(context_.new_binding(), context_.new_binding());
}

TEST_F(NativeSessionQuotaTest, has_no_binding_without_connection_bound_reserve) {
  send_reserve(7);
  session_.close();
  EXPECT_TRUE(backend_.ended_bindings.empty());
}

TEST_F(NativeSessionQuotaTest, ends_binding_again_after_late_decision) {
  send_reserve(7, wire::quota_bit::connection_bound);
  session_.close();
  answer_with({QuotaCode::ok, QuotaCode::ok});
  EXPECT_EQ(backend_.ended_bindings.size(), 2u);
}

TEST_F(NativeSessionQuotaTest, abandons_waiting_entries_when_connection_ends) {
  send_reserve(7, wire::quota_bit::may_wait);
  const api::Ticket first = asked().calls[0].ticket;
  answer_with({QuotaCode::queued, QuotaCode::ok});
  session_.close();
  EXPECT_EQ(backend_.abandoned, std::vector<api::Ticket>{first});
}

TEST_F(NativeSessionQuotaTest, abandons_entry_queued_after_connection_ended) {
  send_reserve(7, wire::quota_bit::may_wait);
  const api::Ticket second = asked().calls[1].ticket;
  session_.close();
  answer_with({QuotaCode::ok, QuotaCode::queued});
  EXPECT_EQ(backend_.abandoned, std::vector<api::Ticket>{second});
  EXPECT_EQ(context_.waits.tickets_count(), 1u);  // until the owner no longer needs it
}

TEST_F(NativeSessionQuotaTest, ends_connection_with_too_many_outstanding_frames) {
  for (uint64_t id = 2; id < 2 + limits::outstanding_frames_max; ++id) send_settle(id, id);
  EXPECT_TRUE(answers_.empty());
  send_settle(5'000, 1);
  while (!backend_.batches.empty()) answer_with({QuotaCode::ok});
  ASSERT_EQ(answers_.size(), limits::outstanding_frames_max + 1);
  EXPECT_EQ(error_code(limits::outstanding_frames_max), schema::ErrorCode::TOO_MANY_OUTSTANDING);
}

}  // namespace
}  // namespace sluice::session
