// Goal: a call over several shards takes all of its amounts or none. Until the verdict they are
//       held: others count them, and nothing is charged. Ends reach every part.
// Method: two or three stores and the steps of their batches by hand, one subject on each.
#include "quota/spread_decider.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/reservation_id.hpp"
#include "unit/quota/list_sink.hpp"
#include "unit/quota/spread_fixture.hpp"

namespace sluice::quota {
namespace {

using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;

class SpreadDeciderTest : public SpreadFixture {
 protected:
  using SpreadFixture::SpreadFixture;
};

// -------------------------------------------------------------------------------- until the
// verdict

TEST_F(SpreadDeciderTest, others_count_a_hold_that_charges_nothing) {
  put(names_[0], {tpm(100)});
  put(names_[1], {tpm(100)});
  const Task task = start(QuotaOp::reserve, {names_}, asking_tokens(60));
  step(*task);
  EXPECT_EQ(usage(names_[0]), (Usage{60, 60, 0, 0}));  // its window has not begun
  EXPECT_EQ(usage(names_[1]), (Usage{0, 0, 0, 0}));
  EXPECT_EQ(reserve({names_[0]}, 40).code, QuotaCode::ok);
  finish(*task);
  EXPECT_EQ(task->batch.answers[0].code, QuotaCode::ok);
  EXPECT_EQ(usage(names_[0]), (Usage{100, 100, 60'000, 2}));
  EXPECT_EQ(usage(names_[1]), (Usage{60, 60, 60'000, 1}));
}

TEST_F(SpreadDeciderTest, charges_at_the_verdict_and_not_when_it_was_asked) {
  put(names_[0], {tpm(100)});
  const Task task = start(QuotaOp::reserve, {names_}, asking_tokens(60));
  step(*task);
  advance_ms(7'000);
  finish(*task);
  EXPECT_EQ(usage(names_[0]).reset_ms, 60'000);
  EXPECT_EQ(task->batch.answers[0].lifetime_ms, 60'000U);
}

TEST_F(SpreadDeciderTest, charges_the_window_that_runs_at_the_verdict) {
  put(names_[0], {tpm(100)});
  reserve({names_[0]}, 40);  // its window begins
  advance_ms(59'999);
  const Task task = start(QuotaOp::reserve, {names_}, asking_tokens(60));
  step(*task);
  advance_ms(2);  // the window has ended
  finish(*task);
  EXPECT_EQ(task->batch.answers[0].code, QuotaCode::ok);
  EXPECT_EQ(usage(names_[0]).used, 60U);
  EXPECT_EQ(end(QuotaOp::cancel, task->batch.answers[0].reservation).code, QuotaCode::ok);
  EXPECT_EQ(usage(names_[0]).used, 0U);
}

TEST_F(SpreadDeciderTest, the_largest_amounts_do_not_fit_beside_a_hold) {
  put(names_[0], {tpm(100)});
  const Task task = start(QuotaOp::reserve, {names_}, asking_tokens(2));
  step(*task);
  constexpr uint64_t most = limits::amount_max;
  const QuotaAnswer answer =
      ask(QuotaOp::reserve, {names_[0]}, asking({.input_tokens = most, .output_tokens = most}));
  EXPECT_EQ(answer.code, QuotaCode::exceeds_limit);
  finish(*task);
  EXPECT_EQ(usage(names_[0]).used, 2U);
}

TEST_F(SpreadDeciderTest, only_reservations_with_parts_on_other_shards_are_marked_so) {
  const Task task = start(QuotaOp::reserve, {names_, {names_[1]}}, asking_tokens(1));
  put(names_[2], {tpm(100)});
  finish(*task);
  EXPECT_TRUE(proto::reservation_id::has_several_shards(task->batch.answers[0].reservation));
  EXPECT_FALSE(proto::reservation_id::has_several_shards(task->batch.answers[1].reservation));
}

TEST_F(SpreadDeciderTest, a_refusal_by_one_shard_drops_the_holds_of_the_others) {
  put(names_[0], {tpm(100)});
  put(names_[2], {tpm(10)});
  const QuotaAnswer answer = reserve(names_, 60);
  EXPECT_EQ(answer.code, QuotaCode::exceeds_limit);
  EXPECT_EQ(answer.retry_after_ms, api::retry_never);
  EXPECT_EQ(answer.reservation, 0U);
  EXPECT_EQ(answer.lifetime_ms, 0U);
  EXPECT_EQ(usage(names_[0]), (Usage{0, 0, 0, 0}));
  EXPECT_EQ(stores_[0].reservations_count(), 0U);
}

TEST_F(SpreadDeciderTest, a_hold_has_an_id_that_nobody_can_use) {
  put(names_[0], {slots(1)});
  const Task task = start(QuotaOp::reserve, {names_}, asking_tokens(1));
  step(*task);
  const uint64_t id = task->batch.spread[0].reservation;
  ASSERT_NE(id, 0U);
  EXPECT_EQ(end(QuotaOp::cancel, id).code, QuotaCode::unknown_reservation);
  EXPECT_EQ(usage(names_[0]).used, 1U);
  finish(*task);
  EXPECT_EQ(task->batch.answers[0].reservation, id);
}

TEST_F(SpreadDeciderTest, reservations_full_on_any_shard_refuses_it) {
  for (int open = 0; open < 5; ++open) reserve({names_[2]}, 1);
  EXPECT_EQ(reserve(names_, 1).code, QuotaCode::reservations_full);
  EXPECT_EQ(stores_[0].reservations_count(), 0U);
}

// ---------------------------------------------------------------------- calls that await a verdict

TEST_F(SpreadDeciderTest, a_call_that_a_hold_keeps_from_fitting_awaits_the_verdict) {
  put(names_[0], {tpm(100)});
  put(names_[1], {tpm(100)});
  reserve({names_[1]}, 50);
  // The first is refused on the second shard: then there is room for the other.
  const Task first = start(QuotaOp::reserve, {names_}, asking_tokens(60));
  step(*first);
  const Task other = start(QuotaOp::reserve, {{names_[0]}, {names_[0]}}, asking_tokens(60));
  step(*other);
  EXPECT_TRUE(other->batch.awaits_verdict);
  EXPECT_EQ(other->batch.answers[0].code, QuotaCode::none);
  EXPECT_EQ(other->batch.answers[1].code, QuotaCode::none);  // behind it
  finish(*first);
  EXPECT_EQ(first->batch.answers[0].code, QuotaCode::tpm_exceeded);
  finish(*other);
  EXPECT_EQ(other->batch.answers[0].code, QuotaCode::ok);
  EXPECT_EQ(other->batch.answers[1].code, QuotaCode::tpm_exceeded);
}

// Without it a worker would begin rounds for ever, and never receive the verdict.
TEST_F(SpreadDeciderTest, a_repeat_that_a_hold_keeps_from_fitting_awaits_the_verdict) {
  put(names_[0], {tpm(100)});
  const QuotaCall repeated = with_id(asking_tokens(30), "x");
  const uint64_t id = ask(QuotaOp::reserve, {names_[1], names_[0]}, repeated).reservation;
  const Task holder = start(QuotaOp::reserve, {names_}, asking_tokens(50));
  step(*holder);
  const Task task = start(QuotaOp::reserve, {{names_[1], names_[0]}, {names_[0]}}, repeated);
  for (int steps = 0; steps < 100 && !task->batch.awaits_verdict; ++steps) step(*task);
  EXPECT_TRUE(task->batch.awaits_verdict);
  EXPECT_FALSE(task->is_decided);
  finish(*holder);
  finish(*task);
  EXPECT_EQ(task->batch.answers[0].reservation, id);
  EXPECT_EQ(task->batch.answers[1].code, QuotaCode::tpm_exceeded);
}

TEST_F(SpreadDeciderTest, the_last_place_may_be_free_after_the_verdict) {
  put(names_[0], {tpm(100)});
  put(names_[1], {tpm(10)});
  for (int open = 0; open < 4; ++open) reserve({names_[0]}, 1);
  const Task refused = start(QuotaOp::reserve, {names_}, asking_tokens(20));
  step(*refused);  // takes the last place
  const Task task = start(QuotaOp::reserve, {{names_[0]}}, asking_tokens(1));
  step(*task);
  EXPECT_TRUE(task->batch.awaits_verdict);
  finish(*refused);
  finish(*task);
  EXPECT_EQ(task->batch.answers[0].code, QuotaCode::ok);
}

// The waiter would fit but for the slot; a limit that frees up earlier decides the retry.
TEST_F(SpreadDeciderTest, waiters_ahead_refuse_it_unless_a_limit_does) {
  put(names_[0], {tpm(10)});
  put(names_[2], {tpm(10)});
  reserve({names_[0]}, 6);
  ask(QuotaOp::reserve, {names_[0]}, waiting(asking_tokens(9), 7));
  EXPECT_EQ(reserve(names_, 1).code, QuotaCode::queue_ahead);
  EXPECT_EQ(reserve(names_, 1).retry_after_ms, 1'000);
  reserve({names_[2]}, 10);
  const QuotaAnswer answer = reserve({names_[1], names_[0], names_[2]}, 1);
  EXPECT_EQ(answer.code, QuotaCode::tpm_exceeded);
  EXPECT_EQ(answer.retry_after_ms, 60'000);
}

TEST_F(SpreadDeciderTest, a_call_that_would_not_fit_without_holds_is_refused_at_once) {
  put(names_[0], {tpm(100)});
  reserve({names_[0]}, 70);
  const Task task = start(QuotaOp::reserve, {names_}, asking_tokens(10));
  step(*task);
  EXPECT_EQ(reserve({names_[0]}, 40).code, QuotaCode::tpm_exceeded);
  finish(*task);
}

TEST_F(SpreadDeciderTest, two_calls_with_each_others_subjects_are_both_decided) {
  for (const std::string& name : names_) put(name, {slots(1)});
  const Task first = start(QuotaOp::reserve, {{names_[0], names_[2]}}, asking_tokens(1));
  const Task second = start(QuotaOp::reserve, {{names_[2], names_[0]}}, asking_tokens(1));
  step(*first);
  step(*second);  // awaits the first, and holds nothing
  for (int round = 0; round < 20 && !first->is_decided; ++round) {
    step(*second);
    step(*first);
  }
  finish(*second);
  EXPECT_EQ(first->batch.answers[0].code, QuotaCode::ok);
  EXPECT_EQ(second->batch.answers[0].code, QuotaCode::concurrency_exceeded);
}

TEST_F(SpreadDeciderTest, calls_of_a_batch_are_decided_in_their_order) {
  put(names_[0], {slots(2)});
  put(names_[1], {slots(1)});
  const Task task =
      start(QuotaOp::reserve,
            {{names_[0]}, {names_[0], names_[1]}, {names_[1]}, {names_[0]}, {names_[1], names_[2]}},
            asking_tokens(1));
  finish(*task);
  const std::vector<QuotaCode> expected{
      QuotaCode::ok, QuotaCode::ok, QuotaCode::concurrency_exceeded,
      QuotaCode::concurrency_exceeded, QuotaCode::concurrency_exceeded};
  for (size_t at = 0; at < expected.size(); ++at) {
    EXPECT_EQ(task->batch.answers[at].code, expected[at]) << at;
  }
}

// Each other call does not fit beside the one before it.
class ConflictingCallsTest : public SpreadDeciderTest {
 protected:
  static constexpr size_t calls_count = 1'000;

  ConflictingCallsTest() : SpreadDeciderTest(calls_count) {}

  Task ask_alternately(uint64_t fitting_tokens, uint64_t conflicting_tokens, uint8_t flags) {
    QuotaCall call = asking_tokens(fitting_tokens);
    call.flags = flags;
    Task task = start(QuotaOp::consume, std::vector<Names>(calls_count, names_), call);
    for (size_t at = 1; at < calls_count; at += 2) {
      task->batch.calls[at].amounts.input_tokens = conflicting_tokens;
    }
    finish(*task);
    return task;
  }
};

TEST_F(ConflictingCallsTest, those_refused_for_good_await_no_verdict) {
  put(names_[0], {tpm(1'000)});
  put(names_[1], {slots(calls_count)});
  const Task task = ask_alternately(0, 1'001, 0);
  for (size_t at = 0; at < calls_count; ++at) {
    const bool fits = at % 2 == 0;
    EXPECT_EQ(task->batch.answers[at].code, fits ? QuotaCode::ok : QuotaCode::exceeds_limit) << at;
  }
  EXPECT_EQ(task->batch.calls_repeated, 0U);
}

TEST_F(ConflictingCallsTest, reports_of_limits_await_the_calls_before) {
  put(names_[0], {tpm(1'000)});
  const Task task = ask_alternately(2, 1'001, api::quota_flag::wants_violated);
  const QuotaAnswer& last = task->batch.answers[calls_count - 1];
  EXPECT_EQ(last.code, QuotaCode::exceeds_limit);
  ASSERT_EQ(last.limits_count, 1U);
  EXPECT_EQ(task->batch.limits[last.first_limit].used, 1'000U);
}

TEST_F(ConflictingCallsTest, a_round_handles_calls_in_proportion_to_those_it_decides) {
  put(names_[0], {tpm(1'000)});
  reserve({names_[0]}, 400);
  const Task task = ask_alternately(1, 601, 0);
  EXPECT_EQ(task->batch.answers[calls_count - 1].code, QuotaCode::tpm_exceeded);
  EXPECT_EQ(usage(names_[0]).used, 900U);
  EXPECT_GE(task->batch.calls_repeated, calls_count);
  EXPECT_LE(task->batch.calls_repeated, calls_count * 20);
}

// -------------------------------------------------------------------------------- what others see

TEST_F(SpreadDeciderTest, reports_every_limit_in_the_order_of_the_subjects) {
  put(names_[0], {tpm(100)});
  put(names_[1], {rpm(5), tpm(50)});
  QuotaCall call = asking_tokens(20);
  call.flags = api::quota_flag::wants_limits;
  const QuotaAnswer answer = ask(QuotaOp::reserve, {names_[1], names_[2], names_[0]}, call);
  ASSERT_EQ(answer.limits_count, 3U);
  EXPECT_EQ(limits_[0].name_text(), "rpm");
  EXPECT_EQ(limits_[1].used, 20U);
  EXPECT_EQ(limits_[1].subject, 0U);
  EXPECT_EQ(limits_[2].subject, 2U);
  call.flags = api::quota_flag::wants_violated;
  call.amounts.input_tokens = 90;
  EXPECT_EQ(ask(QuotaOp::reserve, {names_[1], names_[0]}, call).limits_count, 2U);
  EXPECT_TRUE(limits_[0].violated && limits_[1].violated);
}

TEST_F(SpreadDeciderTest, a_check_holds_and_charges_nothing) {
  put(names_[0], {tpm(100)});
  put(names_[1], {tpm(50)});
  EXPECT_EQ(ask(QuotaOp::check, names_, asking_tokens(50)).code, QuotaCode::ok);
  EXPECT_EQ(ask(QuotaOp::check, names_, asking_tokens(51)).code, QuotaCode::exceeds_limit);
  EXPECT_EQ(usage(names_[0]), (Usage{0, 0, 0, 0}));
}

class OutputTokensTest : public SpreadDeciderTest {
 protected:
  OutputTokensTest() {
    for (uint32_t shard = 0; shard < 3; ++shard) adopt(shard, 1'000);
    put(names_[0], {tpm(100)});
    put(names_[1], {tpm(40)});
  }
  Task reserving(const Names& names) {
    QuotaCall call = asking_tokens(10);
    call.given_bits = 0;
    return start(QuotaOp::reserve, {names}, call);
  }
};

TEST_F(OutputTokensTest, that_a_call_leaves_out_fit_every_shards_limits) {
  const Task task = reserving(names_);
  finish(*task);
  EXPECT_EQ(task->batch.answers[0].code, QuotaCode::ok);
  EXPECT_EQ(usage(names_[0]).used, 40U);
  EXPECT_EQ(usage(names_[1]).used, 40U);
}

TEST_F(OutputTokensTest, that_a_call_leaves_out_fit_a_quota_put_since_the_shards_were_asked) {
  const Task task = reserving({names_[0], names_[1]});
  step(*task, 2);
  ASSERT_EQ(task->batch.spread[0].output_tokens, 30U);
  put(names_[1], {tpm(25)});
  finish(*task);
  EXPECT_EQ(task->batch.answers[0].code, QuotaCode::ok);
  EXPECT_EQ(usage(names_[1]).used, 25U);
  EXPECT_EQ(end(QuotaOp::settle, task->batch.answers[0].reservation, 10).code, QuotaCode::ok);
  EXPECT_EQ(usage(names_[0]).used, usage(names_[1]).used);
}

TEST_F(OutputTokensTest, are_no_more_than_the_rules_of_a_shard_say_by_now) {
  const Task task = reserving({names_[0], names_[1]});
  step(*task, 2);
  adopt(1, 5);
  finish(*task);
  EXPECT_EQ(task->batch.answers[0].code, QuotaCode::ok);
  EXPECT_EQ(usage(names_[1]).used, 15U);
}

TEST_F(SpreadDeciderTest, a_record_charges_every_part) {
  put(names_[0], {tpm(100)});
  put(names_[2], {tpm(10)});
  EXPECT_EQ(ask(QuotaOp::record, names_, asking_tokens(20)).code, QuotaCode::ok);
  EXPECT_EQ(usage(names_[0]).used, 20U);
  EXPECT_EQ(usage(names_[2]).used, 20U);
}

// As after a crash that came between the shards; here the home needed the place.
TEST_F(SpreadDeciderTest, a_repeat_charges_only_the_parts_that_do_not_know_its_id) {
  for (const std::string& name : names_) put(name, {tpm(100)});
  for (const QuotaOp op : {QuotaOp::record, QuotaOp::consume}) {
    SCOPED_TRACE(static_cast<int>(op));
    QuotaCall call = with_id(asking_tokens(20), op == QuotaOp::record ? "r" : "c");
    call.flags = api::quota_flag::wants_limits;
    std::vector<uint64_t> before;
    for (const std::string& name : names_) before.push_back(usage(name).used);
    EXPECT_EQ(ask(op, names_, call).code, QuotaCode::ok);
    std::vector<uint64_t> opened;
    for (int open = 0; open < 5; ++open) opened.push_back(reserve({names_[0]}, 0).reservation);
    for (const uint64_t id : opened) end(QuotaOp::cancel, id);
    EXPECT_EQ(ask(op, names_, call).code, QuotaCode::ok);
    EXPECT_EQ(limits_.size(), names_.size());
    EXPECT_EQ(usage(names_[0]).used, before[0] + 40);
    EXPECT_EQ(usage(names_[1]).used, before[1] + 20);
    EXPECT_EQ(usage(names_[2]).used, before[2] + 20);
    EXPECT_EQ(ask(op, names_, call).code, QuotaCode::ok);  // its home knows it now
    EXPECT_EQ(usage(names_[0]).used, before[0] + 40);
  }
}

TEST_F(SpreadDeciderTest, the_home_of_a_record_with_an_id_is_charged_last) {
  for (const std::string& name : names_) put(name, {tpm(100)});
  const Task task = start(QuotaOp::record, {names_}, with_id(asking_tokens(20), "x"));
  while (!task->is_decided) {
    const Usage charged{20, 0, 60'000, 0};
    if (usage(names_[0]) == charged) {
      EXPECT_EQ(usage(names_[1]), charged);
      EXPECT_EQ(usage(names_[2]), charged);
    }
    step(*task);
  }
  EXPECT_EQ(usage(names_[0]), (Usage{20, 0, 60'000, 0}));
}

// ------------------------------------------------------------------------------------------- ends

TEST_F(SpreadDeciderTest, settle_and_cancel_correct_every_part_once) {
  for (const std::string& name : names_) put(name, {tpm(100)});
  const uint64_t settled = reserve({names_[1], names_[0], names_[2]}, 60).reservation;
  EXPECT_EQ(end(QuotaOp::settle, settled, 20).code, QuotaCode::ok);
  for (const std::string& name : names_) EXPECT_EQ(usage(name), (Usage{20, 0, 60'000, 0}));
  EXPECT_EQ(end(QuotaOp::settle, settled, 90).code, QuotaCode::ok);
  const uint64_t cancelled = reserve(names_, 30).reservation;
  EXPECT_EQ(end(QuotaOp::cancel, cancelled).code, QuotaCode::ok);
  for (const std::string& name : names_) EXPECT_EQ(usage(name), (Usage{20, 0, 60'000, 0}));
}

TEST_F(SpreadDeciderTest, parts_expire_with_their_home_and_are_settled_late) {
  put(names_[0], {slots(1)});
  put(names_[2], {tpm(100)});
  const uint64_t id = reserve({names_[2], names_[0]}, 60).reservation;
  EXPECT_EQ(usage(names_[0]).open, 1U);
  advance_ms(59'999);
  EXPECT_EQ(usage(names_[0]).open, 1U);
  advance_ms(1);
  EXPECT_EQ(usage(names_[0]).open, 0U);
  EXPECT_EQ(usage(names_[2]).open, 0U);
  const QuotaAnswer answer = end(QuotaOp::settle, id, 1);
  EXPECT_EQ(answer.code, QuotaCode::ok);
  EXPECT_TRUE(answer.late);
}

// Parts of a call whose home is another node; the first shard has one.
class NodePartTest : public SpreadFixture {
 protected:
  NodePartTest() {
    put(names_[0], {slots(1)});
    batch_.calls = {
        {.op = QuotaOp::reserve, .given_bits = 0xFF, .subjects_count = 2, .lifetime_ms = 60'000}};
    batch_.subjects = {"there", names_[0]};
    batch_.make_answers();
    batch_.spread.resize(1);
    batch_.spread[0].shards = {api::stop_of_node(1), 0};
    batch_.spread[0].holds.fill(api::SpreadCall::no_hold);
    batch_.spread[0].waiters.fill(api::no_waiter);
    batch_.spread[0].reservation = id_;
    batch_.undecided = {0};
    batch_.round_size = 1;
    pass(api::Pass::ask);
  }
  void pass(api::Pass pass) {
    batch_.pass = pass;
    stores_[0].decide(batch_, now(), 0);
  }
  void admit() {
    batch_.spread[0].state = api::SpreadCall::State::admitted;
    batch_.answers[0].code = QuotaCode::ok;
    pass(api::Pass::apply);
  }
  QuotaCode about_part(QuotaCall call) { return answer_about_part(std::move(call)).code; }
  uint32_t shown_ms() { return answer_about_part({.op = QuotaOp::show}).lifetime_ms; }
  api::QuotaAnswer answer_about_part(QuotaCall call) {
    api::QuotaBatch batch;
    call.reservation = id_;
    batch.calls = {call};
    batch.stays_here = true;
    batch.make_answers();
    stores_[0].decide(batch, now(), 0);
    return batch.answers[0];
  }
  uint32_t open() { return usage(names_[0]).open; }
  // What has changed since the last cut.
  std::vector<state::ReservationRecord> cut() {
    ListSink sink;
    stores_[0].begin_cut(sink, {.epoch = ++epoch_});
    while (stores_[0].hand_over(1'000)) {
    }
    return sink.reservations;
  }

  uint64_t epoch_ = 0;
  const uint64_t id_ = proto::reservation_id::make(7, true, 99, 2);
  api::QuotaBatch batch_;
};

TEST_F(NodePartTest, is_held_until_the_verdict) {
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(usage(names_[0]).used, 1U);
  admit();
  EXPECT_EQ(open(), 1U);
}

TEST_F(NodePartTest, ends_a_little_after_its_lifetime_though_nobody_says_so) {
  admit();
  advance_ms(60'000 + node_part_slack_ms - 1);
  EXPECT_EQ(open(), 1U);
  advance_ms(1);
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(stores_[0].statistics().expired, 0U);  // that counts at the home
}

// Its own timer is longer.
TEST_F(NodePartTest, shows_what_is_left_of_its_lifetime) {
  admit();
  EXPECT_EQ(shown_ms(), 60'000U);
  advance_ms(50'000);
  EXPECT_EQ(shown_ms(), 10'000U);
  advance_ms(15'000);
  EXPECT_EQ(shown_ms(), 0U);
  EXPECT_EQ(open(), 1U);
}

TEST_F(NodePartTest, is_extended_ended_and_expired_by_its_id) {
  admit();
  advance_ms(50'000);
  EXPECT_EQ(about_part({.op = QuotaOp::extend_part, .lifetime_ms = 60'000}), QuotaCode::ok);
  advance_ms(50'000);
  EXPECT_EQ(open(), 1U);
  EXPECT_EQ(about_part({.op = QuotaOp::end_part, .flags = api::quota_flag::cancels}),
            QuotaCode::ok);
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(about_part({.op = QuotaOp::extend_part, .lifetime_ms = 60'000}),
            QuotaCode::unknown_reservation);
}

TEST_F(NodePartTest, is_written_when_it_is_extended) {
  admit();
  const auto before = cut();
  about_part({.op = QuotaOp::extend_part, .lifetime_ms = 90'000});
  const auto after = cut();
  ASSERT_EQ(before.size(), 1U);
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0].due_ms - before[0].due_ms, 30'000);
}

TEST_F(NodePartTest, does_not_end_before_its_home_by_a_shorter_lifetime) {
  admit();
  EXPECT_EQ(about_part({.op = QuotaOp::extend_part, .lifetime_ms = 1'000}), QuotaCode::ok);
  advance_ms(60'000 + node_part_slack_ms - 1);
  EXPECT_EQ(open(), 1U);
  advance_ms(1);
  EXPECT_EQ(open(), 0U);
}

TEST_F(NodePartTest, that_has_expired_is_not_extended) {
  admit();
  EXPECT_EQ(about_part({.op = QuotaOp::expire_part, .lifetime_ms = 60'000}), QuotaCode::ok);
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(about_part({.op = QuotaOp::extend_part, .lifetime_ms = 60'000}),
            QuotaCode::already_expired);
}

// Its home may be settled late for one more lifetime, and repeats that for a while.
TEST_F(NodePartTest, that_has_expired_outlives_its_home) {
  admit();
  about_part({.op = QuotaOp::expire_part, .lifetime_ms = 60'000});
  advance_ms(60'000 + node_part_slack_ms + limits::repeats_ms_min - 1);
  EXPECT_EQ(about_part({.op = QuotaOp::extend_part}), QuotaCode::already_expired);
  advance_ms(1);
  EXPECT_EQ(about_part({.op = QuotaOp::extend_part}), QuotaCode::unknown_reservation);
}

// Its home has ended it in time, and repeats that for a while.
TEST_F(NodePartTest, of_a_short_lifetime_is_kept_until_its_end_can_have_come) {
  batch_.spread[0].state = api::SpreadCall::State::refused;
  pass(api::Pass::apply);
  batch_.spread[0].state = api::SpreadCall::State::undecided;
  batch_.calls[0].lifetime_ms = 10;
  pass(api::Pass::ask);
  admit();
  advance_ms(10 + node_part_slack_ms);
  EXPECT_EQ(open(), 0U);
  advance_ms(limits::repeats_ms_min);
  EXPECT_EQ(about_part({.op = QuotaOp::extend_part}), QuotaCode::already_expired);
}

TEST_F(NodePartTest, that_is_none_of_another_nodes_does_not_expire_by_its_word) {
  const Task task = start(QuotaOp::reserve, {{names_[1], names_[2]}}, asking_tokens(1));
  finish(*task);
  const uint64_t id = task->batch.answers[0].reservation;
  api::QuotaBatch batch;
  batch.calls = {{.op = QuotaOp::expire_part, .shard = 2, .lifetime_ms = 1, .reservation = id}};
  batch.stays_here = true;
  batch.make_answers();
  stores_[2].decide(batch, now(), 0);
  EXPECT_FALSE(end(QuotaOp::settle, id, 1).late);
}

TEST_F(NodePartTest, of_a_repeat_is_not_held) {
  batch_.spread[0].state = api::SpreadCall::State::refused;
  pass(api::Pass::apply);
  batch_.spread[0].state = api::SpreadCall::State::undecided;
  batch_.spread[0].is_repeat = true;
  pass(api::Pass::ask);
  EXPECT_FALSE(api::holds_anything(batch_.spread[0]));
  EXPECT_EQ(usage(names_[0]).used, 0U);
}

TEST_F(NodePartTest, whose_verdict_comes_behind_the_next_round_has_one_claim) {
  api::QuotaBatch again = batch_;
  again.spread[0].holds.fill(api::SpreadCall::no_hold);
  stores_[0].decide(again, now(), 0);
  EXPECT_TRUE(again.spread[0].awaits_others);  // for what the first round holds
  batch_.spread[0].state = api::SpreadCall::State::undecided;
  pass(api::Pass::apply);
  EXPECT_TRUE(stores_[0].has_claims());
  again.pass = api::Pass::forget;
  stores_[0].decide(again, now(), 0);
  EXPECT_FALSE(stores_[0].has_claims());
}

TEST_F(NodePartTest, that_nobody_asks_for_again_has_no_claim) {
  batch_.spread[0].state = api::SpreadCall::State::undecided;
  pass(api::Pass::apply);
  EXPECT_TRUE(stores_[0].has_claims());
  EXPECT_EQ(usage(names_[0]).used, 0U);
  pass(api::Pass::forget);
  EXPECT_FALSE(stores_[0].has_claims());
}

TEST_F(SpreadDeciderTest, a_repeat_gets_the_same_reservation_and_another_order_none) {
  put(names_[0], {slots(1)});
  const QuotaCall call = with_id(asking_tokens(1), "x");
  const uint64_t id = ask(QuotaOp::reserve, names_, call).reservation;
  EXPECT_EQ(ask(QuotaOp::reserve, names_, call).reservation, id);
  EXPECT_EQ(ask(QuotaOp::check, names_, call).code, QuotaCode::ok);
  const Names reversed(names_.rbegin(), names_.rend());
  EXPECT_EQ(ask(QuotaOp::reserve, reversed, call).code, QuotaCode::id_in_use);
  end(QuotaOp::cancel, id);
  EXPECT_EQ(ask(QuotaOp::reserve, reversed, call).code, QuotaCode::id_in_use);
  EXPECT_EQ(ask(QuotaOp::reserve, names_, call).state, api::ReservationState::cancelled);
  advance_ms(60'000);
  EXPECT_EQ(ask(QuotaOp::reserve, reversed, call).code, QuotaCode::ok);
}

// Of a reservation whose first subject had no quota, beside one with parts on other shards.
TEST_F(SpreadDeciderTest, a_reservation_of_one_shard_is_listed_without_gaps) {
  std::string other;
  for (int number = 0; other.empty() || stores_.shard_of(other) != 0; ++number) {
    other = numbered("other", number);
  }
  put(names_[0], {tpm(100)});
  put(names_[1], {tpm(100)});
  reserve({other, names_[0]}, 1);
  reserve(names_, 1);
  StoreTask task;
  task.batch.calls = {{.op = QuotaOp::holders, .subjects_count = 1}};
  task.batch.subjects = {names_[0]};
  stores_.decide(task, now());
  ASSERT_EQ(task.batch.holders.size(), 2U);
  EXPECT_EQ(task.batch.holders[0].subjects_count, 1U);
  EXPECT_EQ(task.batch.holders[1].subjects_count, 2U);
}

TEST_F(SpreadDeciderTest, a_reservation_is_listed_once_with_all_its_subjects) {
  for (const std::string& name : names_) put(name, {tpm(100)});
  QuotaCall call = asking_tokens(1);
  call.owner = "job 7";
  const uint64_t id = ask(QuotaOp::reserve, {names_[1], names_[2]}, call).reservation;
  StoreTask task;
  task.batch.calls = {{.op = QuotaOp::holders, .subjects_count = 1}};
  task.batch.subjects = {names_[2]};
  stores_.decide(task, now());
  ASSERT_EQ(task.batch.holders.size(), 1U);
  EXPECT_EQ(task.batch.answers[0].rows_count, 1U);
  const api::HolderRow& row = task.batch.holders[0];
  EXPECT_EQ(row.reservation, id);
  EXPECT_EQ(task.batch.text_of(row.owner), "job 7");
  EXPECT_EQ(row.lifetime_ms, 60'000U);
  ASSERT_EQ(row.subjects_count, 2U);
  EXPECT_EQ(task.batch.text_of(row.subjects[0]), names_[1]);
  EXPECT_EQ(task.batch.text_of(row.subjects[1]), names_[2]);
}

}  // namespace
}  // namespace sluice::quota
