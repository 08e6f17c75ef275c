// Parcels of quota calls leave in frames of their own and return with their answers; calls that
// wait have their outcomes as grants; what nobody receives any more is cancelled. The test is the
// owner.
#include <gtest/gtest.h>

#include "tests/unit/peer/lane_fixture.hpp"
#include "wire/forward_quota.hpp"
#include "wire/quota_outcomes.hpp"

namespace sluice::peer {
namespace {

using api::QuotaAnswer;
using api::QuotaCode;
using api::QuotaOp;
using wire::ForwardQuotaRequest;
using wire::WithdrawRequest;

class LaneQuotaTest : public LaneFixture {
 protected:
  explicit LaneQuotaTest(const FleetOptions& options = fleet()) : LaneFixture(options) {
    takes_quota_calls_ = true;
  }
  // A parcel of reserves, with these tickets.
  QuotaParcel& parcel_of(const std::vector<api::Ticket>& tickets) {
    QuotaParcel& parcel = parcels_.emplace_back();
    parcel.deadline_ms = context_.now_ms + 2'000;
    for (const api::Ticket ticket : tickets) {
      const bool may_wait = ticket != api::no_ticket;
      parcel.batch.calls.push_back(
          {.op = QuotaOp::reserve,
           .flags = may_wait ? api::quota_flag::may_wait : uint8_t{0},
           .subjects_count = 1,
           .first_subject = static_cast<uint32_t>(parcel.batch.subjects.size()),
           .ticket = ticket});
      parcel.batch.subjects.push_back("model");
    }
    return parcel;
  }
  QuotaParcel& send_parcel(const std::vector<api::Ticket>& tickets = {api::no_ticket}) {
    QuotaParcel& parcel = parcel_of(tickets);
    lane_->send(parcel);
    sent();
    return parcel;
  }
  // Of the frame that was sent last.
  uint64_t frame_id() {
    return sent().id<ForwardQuotaRequest>(sent().count<ForwardQuotaRequest>() - 1);
  }
  void answer(uint64_t id, const std::vector<QuotaAnswer>& answers,
              const std::vector<uint32_t>& entries = {},
              const std::vector<api::LimitReport>& limits = {}) {
    receive(wire::encode_outcomes(id, {.entries = entries,
                                       .answers = answers,
                                       .limits = limits,
                                       .rows = {},
                                       .holders = {},
                                       .quotas = {},
                                       .text = {}}));
    deliver(target_);
  }

  std::deque<QuotaParcel> parcels_;
};

TEST_F(LaneQuotaTest, announces_its_worker_before_anything_else) {
  context_.sender = 99;
  greet();
  ASSERT_EQ(sent().count<ForwardQuotaRequest>(), 1U);
  EXPECT_EQ(frames_.body<ForwardQuotaRequest>().sender, 99U);
  EXPECT_TRUE(lane_->takes_parcels());
}

TEST_F(LaneQuotaTest, parcels_return_with_their_answers) {
  greet();
  QuotaParcel& parcel = send_parcel({api::no_ticket, api::no_ticket});
  ASSERT_EQ(sent().count<ForwardQuotaRequest>(), 2U);
  api::QuotaBatch calls;
  std::vector<bool> wants;
  ASSERT_TRUE(wire::read_calls(frames_.body<ForwardQuotaRequest>(1), calls, wants));
  EXPECT_EQ(calls.calls.size(), 2U);
  EXPECT_TRUE(delivered_.parcels.empty());
  answer(frame_id(), {{.code = QuotaCode::ok, .reservation = 5},
                      {.code = QuotaCode::tpm_exceeded, .retry_after_ms = 70}});
  ASSERT_EQ(delivered_.parcels, std::vector{&parcel});
  EXPECT_TRUE(parcel.is_answered);
  EXPECT_EQ(parcel.batch.answers[0].reservation, 5U);
  EXPECT_EQ(parcel.batch.answers[1].code, QuotaCode::tpm_exceeded);
  EXPECT_EQ(lane_->state(), Lane::State::open);
}

TEST_F(LaneQuotaTest, a_call_that_waits_on_after_its_try_keeps_the_lane) {
  greet();
  QuotaParcel& parcel = parcel_of({api::no_ticket});
  parcel.batch.calls[0].subjects_count = 2;
  parcel.batch.subjects = {"", ""};  // a try has no names
  parcel.batch.pass = api::Pass::apply;
  parcel.batch.visit = {.number = 3, .home = 1, .places = {0}, .subject_bits = {2}};
  parcel.batch.arrival.number = uint64_t{1} << 54;
  parcel.batch.spread.push_back({.state = api::SpreadCall::State::queued, .is_try = true});
  parcel.batch.answers = {{.code = QuotaCode::queued}};
  lane_->send(parcel);
  sent();
  api::QuotaBatch echoed = parcel.batch;
  echoed.visit.is_known = true;
  receive(wire::encode_outcomes(frame_id(), wire::outcomes_of(echoed)));
  deliver(target_);
  EXPECT_EQ(delivered_.parcels, std::vector{&parcel});
  EXPECT_TRUE(parcel.is_answered);
  EXPECT_EQ(lane_->state(), Lane::State::open);
}

// The other node may keep all that it has been asked for until it has this verdict.
TEST_F(LaneQuotaTest, a_verdict_finds_room_beside_calls_that_are_not_answered) {
  greet();
  size_t sent_before = 0;
  do {
    sent_before = sent().count<ForwardQuotaRequest>();
    send_parcel();
  } while (sent().count<ForwardQuotaRequest>() > sent_before);
  QuotaParcel& verdict = parcel_of({api::no_ticket});
  verdict.of = QuotaParcel::Of::visit;
  verdict.batch.calls[0].subjects_count = 2;
  verdict.batch.subjects = {"a", "b"};
  verdict.batch.pass = api::Pass::apply;
  verdict.batch.visit = {.number = 3, .home = 1, .places = {0}, .subject_bits = {2}};
  verdict.batch.arrival.number = uint64_t{1} << 54;
  verdict.batch.spread.push_back({.state = api::SpreadCall::State::admitted});
  verdict.batch.answers.resize(1);
  lane_->send(verdict);
  EXPECT_EQ(sent().count<ForwardQuotaRequest>(), sent_before + 1);
  EXPECT_EQ(lane_->state(), Lane::State::open);
}

TEST_F(LaneQuotaTest, takes_none_where_the_owner_does_not) {
  takes_quota_calls_ = false;
  greet();
  EXPECT_FALSE(lane_->takes_parcels());
  EXPECT_EQ(sent().count<ForwardQuotaRequest>(), 0U);
}

class LaneWithoutSecretTest : public LaneQuotaTest {
 protected:
  static FleetOptions without_secret() {
    FleetOptions options = fleet();
    options.secret.clear();
    return options;
  }
  LaneWithoutSecretTest() : LaneQuotaTest(without_secret()) {}
};

TEST_F(LaneWithoutSecretTest, takes_no_parcels) {
  greet();
  EXPECT_FALSE(lane_->takes_parcels());
}

TEST_F(LaneQuotaTest, a_parcel_that_is_lost_returns_without_answers) {
  greet();
  QuotaParcel& parcel = send_parcel();
  event(io::EventKind::end_of_stream);
  deliver(target_);
  EXPECT_EQ(delivered_.parcels, std::vector{&parcel});
  EXPECT_FALSE(parcel.is_answered);
}

TEST_F(LaneQuotaTest, a_late_reservation_is_nobodys) {
  greet();
  QuotaParcel& parcel = send_parcel({api::no_ticket, 4});
  parcel.deadline_ms = context_.now_ms + 100;
  pass(100);
  deliver(target_);
  ASSERT_EQ(delivered_.parcels, std::vector{&parcel});
  EXPECT_FALSE(parcel.is_answered);
  const uint64_t id = frame_id();
  answer(id, {{.code = QuotaCode::ok, .reservation = 5}, {.code = QuotaCode::queued}});
  EXPECT_EQ(delivered_.parcels.size(), 1U);
  EXPECT_EQ(delivered_.unclaimed, std::vector<uint64_t>{5});
  ASSERT_EQ(sent().count<WithdrawRequest>(), 1U);
  EXPECT_EQ(frames_.body<WithdrawRequest>().target, id);
  EXPECT_EQ(frames_.body<WithdrawRequest>().entries[0], 1U);
  // The wait had ended before the owner read that.
  answer(id, {{.code = QuotaCode::ok, .reservation = 6}}, {1});
  EXPECT_EQ(delivered_.unclaimed, (std::vector<uint64_t>{5, 6}));
  EXPECT_TRUE(delivered_.grants.empty());
}

TEST_F(LaneQuotaTest, what_was_extended_too_late_stays) {
  greet();
  QuotaParcel& parcel = parcels_.emplace_back();
  parcel.deadline_ms = context_.now_ms + 100;
  parcel.batch.calls = {{.op = QuotaOp::extend, .reservation = 8}};
  lane_->send(parcel);
  sent();
  pass(100);
  answer(frame_id(),
         {{.code = QuotaCode::ok, .state = api::ReservationState::open, .reservation = 8}});
  EXPECT_TRUE(delivered_.unclaimed.empty());
}

// ------------------------------------------------------------------------- calls that wait

TEST_F(LaneQuotaTest, a_call_that_waited_has_its_outcome_as_a_grant) {
  greet();
  QuotaParcel& parcel = send_parcel({4});
  const uint64_t id = frame_id();
  answer(id, {{.code = QuotaCode::queued}});
  ASSERT_EQ(parcel.batch.answers[0].code, QuotaCode::queued);
  EXPECT_NE(parcel.batch.answers[0].waiter, api::no_waiter);
  answer(id, {{.code = QuotaCode::ok, .reservation = 5}}, {0});
  ASSERT_EQ(delivered_.grants.size(), 1U);
  EXPECT_EQ(delivered_.grants[0].ticket, 4U);
  EXPECT_EQ(delivered_.grants[0].verdict, api::Verdict::approved);
  EXPECT_EQ(delivered_.grants[0].code, QuotaCode::ok);
  EXPECT_EQ(delivered_.grants[0].refund_claim.reservation, 5U);
  answer(id, {{.code = QuotaCode::ok, .reservation = 6}}, {0});  // it waits no more
  EXPECT_EQ(delivered_.grants.size(), 1U);
  EXPECT_EQ(delivered_.unclaimed, std::vector<uint64_t>{6});
}

TEST_F(LaneQuotaTest, an_outcome_brings_the_limits_that_were_asked_for) {
  greet();
  api::WaitAnswer waited;
  QuotaParcel& parcel = parcel_of({4});
  parcel.batch.wait_answers = {&waited};
  lane_->send(parcel);
  const uint64_t id = frame_id();
  answer(id, {{.code = QuotaCode::queued}});
  answer(
      id,
      {{.code = QuotaCode::wait_limit, .first_limit = 0, .limits_count = 1, .retry_after_ms = 30}},
      {0}, {{.amount = 77}});
  ASSERT_EQ(delivered_.grants.size(), 1U);
  EXPECT_EQ(delivered_.grants[0].verdict, api::Verdict::denied);
  EXPECT_EQ(delivered_.grants[0].detail.retry_after_ms, 30);
  EXPECT_EQ(waited.answer.code, QuotaCode::wait_limit);
  ASSERT_EQ(waited.limits.size(), 1U);
  EXPECT_EQ(waited.limits[0].amount, 77U);
}

TEST_F(LaneQuotaTest, a_waiter_that_leaves_is_withdrawn) {
  greet();
  QuotaParcel& parcel = send_parcel({3, 4});
  const uint64_t id = frame_id();
  answer(id, {{.code = QuotaCode::queued}, {.code = QuotaCode::queued}});
  target_.post(notice_of(route::Notice::Kind::abandon, parcel.batch.answers[1].waiter, 4));
  target_.flush();
  ASSERT_EQ(sent().count<WithdrawRequest>(), 1U);
  EXPECT_EQ(frames_.body<WithdrawRequest>().target, id);
  EXPECT_EQ(frames_.body<WithdrawRequest>().entries[0], 1U);
  answer(id, {{.code = QuotaCode::withdrawn}}, {1});
  ASSERT_EQ(delivered_.grants.size(), 1U);
  EXPECT_EQ(delivered_.grants[0].code, QuotaCode::withdrawn);
}

TEST_F(LaneQuotaTest, waiters_lose_their_places_with_the_lane) {
  greet();
  api::WaitAnswer waited;
  QuotaParcel& parcel = parcel_of({4});
  parcel.batch.wait_answers = {&waited};
  lane_->send(parcel);
  answer(frame_id(), {{.code = QuotaCode::queued}});
  event(io::EventKind::end_of_stream);
  deliver(target_);
  ASSERT_EQ(delivered_.grants.size(), 1U);
  EXPECT_EQ(delivered_.grants[0].verdict, api::Verdict::denied);
  EXPECT_EQ(delivered_.grants[0].code, QuotaCode::owner_unreachable);
  EXPECT_EQ(waited.answer.code, QuotaCode::owner_unreachable);
}

TEST_F(LaneQuotaTest, without_room_for_another_waiter_the_call_is_refused) {
  greet();
  const std::vector<api::Ticket> tickets{1, 2, 3, 4, 5};
  ASSERT_EQ(tickets.size(), waiters_max + 1U);
  QuotaParcel& parcel = send_parcel(tickets);
  answer(frame_id(), std::vector<QuotaAnswer>(5, {.code = QuotaCode::queued}));
  EXPECT_EQ(parcel.batch.answers[3].code, QuotaCode::queued);
  EXPECT_EQ(parcel.batch.answers[4].code, QuotaCode::owner_unreachable);
  ASSERT_EQ(sent().count<WithdrawRequest>(), 1U);
  EXPECT_EQ(frames_.body<WithdrawRequest>().entries[0], 4U);
}

// --------------------------------------------------------------- owners that shut down, or err

TEST_F(LaneQuotaTest, an_owner_that_drains_is_not_this_node) {
  greet();
  QuotaParcel& parcel = send_parcel({api::no_ticket, 4});
  const uint64_t id = frame_id();
  answer(id, {{.code = QuotaCode::draining}, {.code = QuotaCode::queued}});
  EXPECT_EQ(parcel.batch.answers[0].code, QuotaCode::owner_unreachable);
  answer(id, {{.code = QuotaCode::draining}}, {1});
  ASSERT_EQ(delivered_.grants.size(), 1U);
  EXPECT_EQ(delivered_.grants[0].code, QuotaCode::owner_unreachable);
}

TEST_F(LaneQuotaTest, an_owner_that_leaves_answers_what_it_has) {
  greet();
  QuotaParcel& parcel = send_parcel();
  const uint64_t id = frame_id();
  receive(words_of(wire::small_answer_bytes_max,
                   [](auto out) { return wire::encode_go_away("bye", out); }));
  EXPECT_EQ(lane_->state(), Lane::State::open);
  EXPECT_FALSE(lane_->takes_parcels());
  answer(id, {{.code = QuotaCode::ok, .reservation = 5}});
  EXPECT_TRUE(parcel.is_answered);
  EXPECT_EQ(lane_->state(), Lane::State::lost);
}

TEST_F(LaneQuotaTest, answers_that_do_not_fit_the_calls_end_the_lane) {
  greet();
  QuotaParcel& parcel = send_parcel();
  answer(frame_id(), {{.code = QuotaCode::ok}, {.code = QuotaCode::ok}});
  EXPECT_EQ(lane_->state(), Lane::State::lost);
  EXPECT_EQ(delivered_.parcels, std::vector{&parcel});
  EXPECT_FALSE(parcel.is_answered);
}

TEST_F(LaneQuotaTest, answers_that_nobody_asked_for_end_the_lane) {
  greet();
  answer(4'711, {{.code = QuotaCode::ok}});
  EXPECT_EQ(lane_->state(), Lane::State::lost);
}

TEST_F(LaneQuotaTest, a_silent_owner_of_calls_is_pinged) {
  greet();
  send_parcel();
  pass(300);
  EXPECT_EQ(sent().count<wire::PingRequest>(), 1U);
}

}  // namespace
}  // namespace sluice::peer
