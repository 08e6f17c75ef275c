// Goal:   a call that may wait has one place for each shard until its verdict, and joins the queues
//         or leaves no trace with it.
// Method: one shard's part of a call by hand, at the home and at another shard.
#include "quota/joining_waiters.hpp"

#include <gtest/gtest.h>

#include <deque>

#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

using api::QuotaCode;
using api::SpreadCall;

class JoiningWaitersTest : public testing::Test {
 protected:
  JoiningWaitersTest() {
    subject_ = driver_.make("a", {tpm(100)});
    batch_.calls = {{.flags = api::quota_flag::may_wait,
                     .given_bits = 0xFF,
                     .subjects_count = 2,
                     .wait_ms_max = 500,
                     .ticket = 3,
                     .owner = "worker"}};
    batch_.subjects = {"a", "b"};
    batch_.arrival = {.ns = 5, .number = 9};
    batch_.spread.resize(1);
    batch_.make_answers();
    spread().holds.fill(SpreadCall::no_hold);
    spread().waiters.fill(api::no_waiter);
    spread().shards = {0, 4};
  }
  ~JoiningWaitersTest() override {
    driver_.queues.check_invariants();
    driver_.reservations.check_invariants();
  }

  SpreadCall& spread() { return batch_.spread.front(); }
  // At the shard, which has the subject at this place.
  SpreadPart part(api::ShardId shard) {
    SpreadPart part{batch_, 0, shard};
    part.request = {.amounts = batch_.calls[0].amounts, .subjects_count = 2};
    part.request.subjects.fill(no_subject);
    part.request.subjects[part.place] = subject_;
    driver_.subjects.read_limited_subject(subject_, part.limited.emplace_back());
    return part;
  }
  void take(api::ShardId shard) {
    SpreadPart taken = part(shard);
    joining_.take(taken, 6);
  }
  void end(SpreadCall::State state, api::ShardId shard) {
    spread().state = state;
    SpreadPart ended = part(shard);
    joining_.end(ended);
  }
  void put(uint64_t amount) {
    const CompiledQuota* const held = driver_.book.classes().hold(quota_of({tpm(amount)}));
    driver_.subjects.change_quota(subject_, {held, api::QuotaSource::run_time});
    driver_.book.classes().drop_reference(held);
  }
  const Waiter& waiter(uint8_t place) { return driver_.queues[spread().waiters[place]]; }

  TableDriver driver_{
      {.subjects_max = 8, .reservations_max = 4, .waiters_max = 2, .name_seed = 42, .id_seed = 42}};
  WorkBudget budget_{1'000};
  std::deque<api::QuotaCall> outgoing_;
  SpreadWaiters waiters_{driver_.options, driver_.clock, driver_.queues, outgoing_};
  QueueServer server_{driver_.options, driver_.clock,    budget_,
                      driver_.book,    driver_.subjects, driver_.reservations,
                      driver_.queues,  waiters_,         driver_.statistics};
  JoiningWaiters joining_{driver_.reservations, driver_.queues, waiters_, server_};
  api::QuotaBatch batch_;
  SubjectIndex subject_ = no_subject;
};

TEST_F(JoiningWaitersTest, a_place_is_in_no_queue_and_keeps_the_subject) {
  take(0);
  EXPECT_EQ(waiter(0).stage, Waiter::Stage::joining);
  EXPECT_FALSE(driver_.subjects[subject_].has_waiters());
  EXPECT_EQ(driver_.subjects[subject_].held, 1U);
  EXPECT_EQ(spread().holds[0], SpreadCall::without_hold) << "the verdict has to come here";
  end(SpreadCall::State::refused, 0);
}

TEST_F(JoiningWaitersTest, a_call_that_does_not_wait_leaves_no_trace) {
  for (const auto state :
       {SpreadCall::State::refused, SpreadCall::State::admitted, SpreadCall::State::undecided}) {
    take(0);
    end(state, 0);
    EXPECT_EQ(driver_.queues.pool().used(), 0U);
    EXPECT_EQ(driver_.subjects[subject_].held, 0U);
  }
}

TEST_F(JoiningWaitersTest, at_home_it_waits_with_its_ticket_and_limit) {
  take(0);
  spread().waiters[1] = 17;
  end(SpreadCall::State::queued, 0);
  EXPECT_EQ(waiter(0).stage, Waiter::Stage::waiting);
  EXPECT_EQ(waiter(0).ticket, 3U);
  EXPECT_EQ(waiter(0).origin, 6U);
  EXPECT_EQ(waiter(0).arrival, (api::Arrival{.ns = 5, .number = 9}));
  EXPECT_EQ(driver_.queues.owner_of(spread().waiters[0]), "worker");
  EXPECT_TRUE(waiter(0).limit.scheduled());
  EXPECT_TRUE(waiter(0).has_parts());
  EXPECT_EQ(waiter(0).parts[1], 17U);
  EXPECT_EQ(driver_.queues.waiting_count(), 1U);
  EXPECT_TRUE(driver_.subjects[subject_].to_serve) << "it may fit by now";
}

TEST_F(JoiningWaitersTest, a_part_waits_for_its_home) {
  spread().waiters[0] = 12;
  take(4);
  end(SpreadCall::State::queued, 4);
  EXPECT_TRUE(waiter(1).is_part);
  EXPECT_EQ(waiter(1).home, 0U);
  EXPECT_EQ(waiter(1).parts[0], 12U);
  EXPECT_EQ(waiter(1).first_place, 1U);
  EXPECT_EQ(waiter(1).ticket, api::no_ticket);
  EXPECT_FALSE(waiter(1).limit.scheduled());
  EXPECT_EQ(driver_.queues.waiting_count(), 0U);
  EXPECT_TRUE(driver_.subjects[subject_].has_waiters());
}

// Of another node, which has given one number to two calls.
TEST_F(JoiningWaitersTest, a_part_does_not_join_beside_one_with_its_arrival) {
  take(4);
  const api::WaiterId first = spread().waiters[1];
  take(4);
  end(SpreadCall::State::queued, 4);
  spread().waiters[1] = first;
  end(SpreadCall::State::queued, 4);
  EXPECT_EQ(driver_.queues.pool().used(), 1U);
  EXPECT_EQ(driver_.subjects[subject_].waiting, 1U);
}

// While its verdict was on the way the subject's quota has changed.
TEST_F(JoiningWaitersTest, one_that_can_never_be_admitted_by_now_is_out_at_once) {
  batch_.calls[0].amounts.input_tokens = 60;
  take(0);
  spread().waiters[1] = 17;
  put(50);
  end(SpreadCall::State::queued, 0);
  EXPECT_TRUE(waiters_.has_tries()) << "a try gives the reason";
}

// Other calls of its batch are of several shards.
TEST_F(JoiningWaitersTest, one_of_one_shard_that_can_never_be_admitted_by_now_ends_at_once) {
  batch_.calls[0].amounts.input_tokens = 60;
  batch_.calls[0].subjects_count = 1;
  take(0);
  put(50);
  end(SpreadCall::State::queued, 0);
  ASSERT_EQ(server_.grants().size(), 1U);
  EXPECT_EQ(server_.grants()[0].code, QuotaCode::exceeds_limit);
  EXPECT_EQ(driver_.queues.pool().used(), 0U);
}

TEST_F(JoiningWaitersTest, a_part_that_can_never_be_admitted_by_now_reports_it) {
  batch_.calls[0].amounts.input_tokens = 60;
  spread().waiters[0] = 12;
  take(4);
  put(50);
  end(SpreadCall::State::queued, 4);
  ASSERT_EQ(outgoing_.size(), 1U);
  EXPECT_EQ(outgoing_.front().op, api::QuotaOp::part_is_out);
  EXPECT_EQ(outgoing_.front().waiter, 12U);
}

TEST_F(JoiningWaitersTest, at_home_it_knows_what_other_shards_have_reported_before) {
  take(0);
  spread().waiters[1] = 17;
  waiters_.note_out({.waiter = spread().waiters[0]});
  EXPECT_FALSE(waiters_.has_tries());
  end(SpreadCall::State::queued, 0);
  EXPECT_TRUE(waiters_.has_tries());
}

TEST_F(JoiningWaitersTest, without_a_place_the_call_knows_why) {
  take(0);
  spread().waiters.fill(api::no_waiter);
  take(0);
  spread().waiters.fill(api::no_waiter);
  take(0);
  EXPECT_EQ(spread().waiters[0], api::no_waiter);
  EXPECT_EQ(spread().no_waiter_code, QuotaCode::waiters_full);
}

TEST_F(JoiningWaitersTest, a_full_server_outweighs_a_full_subject_and_that_a_connection) {
  batch_.calls[0].flags |= api::quota_flag::connection_waiters_full;
  take(0);
  EXPECT_EQ(spread().no_waiter_code, QuotaCode::connection_waiters_full);
  driver_.subjects[subject_].waiting = 2;
  take(0);
  EXPECT_EQ(spread().no_waiter_code, QuotaCode::subject_waiters_full);
  driver_.subjects[subject_].waiting = 0;
  batch_.calls[0].flags |= api::quota_flag::waiters_full;
  take(0);
  EXPECT_EQ(spread().no_waiter_code, QuotaCode::waiters_full);
}

}  // namespace
}  // namespace sluice::quota
