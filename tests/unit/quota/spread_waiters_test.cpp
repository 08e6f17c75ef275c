// Goal:   the home of a waiter tries it once all its parts fit, or its wait limit has passed, and a
//         part reports once until a try finds that it does not fit.
// Method: a waiter of three shards by hand, at home and as a part.
#include "quota/spread_waiters.hpp"

#include <gtest/gtest.h>

#include <deque>

#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaOp;

constexpr uint8_t own = 1;
constexpr uint8_t second = 2;
constexpr uint8_t third = 8;  // its first subject is the call's fourth

class SpreadWaitersTest : public testing::Test {
 protected:
  SpreadWaitersTest() {
    Request request{.amounts = {.requests = 2, .input_tokens = 30},
                    .connection = 77,
                    .lifetime_ms = 4'000,
                    .subjects_count = 4};
    request.subjects.fill(no_subject);
    request.subjects[0] = driver_.make("a", {tpm(100)});
    request.subjects[1] = request.subjects[2] = subject_of_shard(5);
    request.subjects[3] = subject_of_shard(7);
    index_ = queues_.take(request, {QuotaCall{.ticket = 3, .owner = "worker"}, 0, {.ns = 1}});
    waiter().part_bits = own | second | third;
    waiter().parts = {index_, 11, api::no_waiter, 12};
    queues_.enter(index_, 0);
  }

  Waiter& waiter() { return queues_[index_]; }
  void note_fits(uint8_t place) { waiters_.note_fits({.place = place, .waiter = index_}); }
  void note_all() {
    waiters_.on_fits(waiter());
    note_fits(1);
    note_fits(3);
  }
  QuotaBatch next_try() {
    QuotaBatch batch;
    waiters_.next_try(batch);
    return batch;
  }

  TableDriver driver_{{.shard = 2,
                       .subjects_max = 8,
                       .reservations_max = 4,
                       .waiters_max = 8,
                       .name_seed = 42,
                       .id_seed = 42}};
  WaitQueues& queues_ = driver_.queues;
  std::deque<QuotaCall> outgoing_;
  SpreadWaiters waiters_{driver_.options, driver_.clock, queues_, outgoing_};
  api::WaiterId index_ = api::no_waiter;
};

TEST_F(SpreadWaitersTest, a_waiter_is_tried_once_all_its_parts_fit) {
  waiters_.on_fits(waiter());
  note_fits(3);
  note_fits(3);
  EXPECT_FALSE(waiters_.has_tries());
  note_fits(1);
  EXPECT_TRUE(waiters_.has_tries());
  next_try();
  EXPECT_FALSE(waiters_.has_tries());
  EXPECT_EQ(waiter().stage, Waiter::Stage::tried);
}

TEST_F(SpreadWaitersTest, a_try_asks_what_the_call_has_asked_of_the_same_shards) {
  note_all();
  api::WaitAnswer lent;
  waiter().answer = &lent;
  const QuotaBatch batch = next_try();
  const QuotaCall& call = batch.calls.front();
  EXPECT_EQ(call.op, QuotaOp::reserve);
  EXPECT_EQ(call.amounts, waiter().request.amounts);
  EXPECT_EQ(call.lifetime_ms, 4'000U);
  EXPECT_EQ(call.binding, 77U);
  EXPECT_EQ(call.owner, "worker");
  EXPECT_EQ(call.subjects_count, 4U);
  EXPECT_EQ(call.flags, api::quota_flag::wants_limits);
  EXPECT_EQ(call.given_bits, 15);  // all that a frame to another node may have
  const api::SpreadCall& spread = batch.spread.front();
  EXPECT_TRUE(spread.is_try);
  EXPECT_FALSE(spread.is_last_try);
  EXPECT_EQ(std::vector(spread.shards.begin(), spread.shards.begin() + 4),
            (std::vector<api::ShardId>{2, 5, 5, 7}));
  EXPECT_EQ(spread.waiters[0], index_);
  EXPECT_EQ(spread.waiters[1], 11U);
  EXPECT_EQ(spread.waiters[3], 12U);
}

TEST_F(SpreadWaitersTest, a_try_that_fails_is_repeated_when_the_parts_that_did_not_fit_report) {
  note_all();
  next_try();
  waiters_.go_on(waiter(), own | third);
  EXPECT_FALSE(waiters_.has_tries());
  note_fits(1);
  EXPECT_TRUE(waiters_.has_tries());
}

TEST_F(SpreadWaitersTest, a_report_during_a_try_counts_after_it) {
  note_all();
  next_try();
  note_fits(1);
  EXPECT_FALSE(waiters_.has_tries());
  waiters_.go_on(waiter(), own | third);
  EXPECT_TRUE(waiters_.has_tries());
}

TEST_F(SpreadWaitersTest, the_wait_limit_begins_the_last_try) {
  waiters_.on_late(waiter());
  ASSERT_TRUE(waiters_.has_tries());
  EXPECT_TRUE(next_try().spread.front().is_last_try);
}

TEST_F(SpreadWaitersTest, the_wait_limit_of_one_that_is_tried_begins_the_last_try_behind_it) {
  note_all();
  EXPECT_FALSE(next_try().spread.front().is_last_try);
  waiters_.on_late(waiter());
  EXPECT_FALSE(waiters_.has_tries());
  waiters_.go_on(waiter(), 0);
  ASSERT_TRUE(waiters_.has_tries());
  EXPECT_TRUE(next_try().spread.front().is_last_try);
}

TEST_F(SpreadWaitersTest, one_that_leaves_is_tried_no_more_and_its_parts_leave) {
  note_all();
  waiters_.leave_parts(waiter());
  queues_.leave(index_);
  EXPECT_FALSE(waiters_.has_tries());
  ASSERT_EQ(outgoing_.size(), 2U);
  for (const QuotaCall& call : outgoing_) EXPECT_EQ(call.op, QuotaOp::leave_queues);
  EXPECT_EQ(outgoing_[0].shard, 5U);
  EXPECT_EQ(outgoing_[0].waiter, 11U);
  EXPECT_EQ(outgoing_[1].shard, 7U);
  EXPECT_EQ(outgoing_[1].waiter, 12U);
}

// Whose last two subjects have parts on another node.
class NodeWaitersTest : public SpreadWaitersTest {
 protected:
  static constexpr int64_t renewal_ns = 4 * base::ns_per_s;

  NodeWaitersTest() {
    Request& request = waiter().request;
    request.subjects[2] = request.subjects[3] = subject_of_shard(api::stop_of_node(3));
    waiter().part_bits = own | second | 4 | 8;
    waiter().parts = {index_, 11, 6, 6};
    waiter().arrival = {.ns = 7, .number = 80};
  }
  // Of the same subjects.
  Waiter& join(int64_t arrival_ns) {
    const api::WaiterId index =
        queues_.take(waiter().request, {QuotaCall{.ticket = 4}, 0, {.ns = arrival_ns}});
    queues_[index].part_bits = waiter().part_bits;
    queues_[index].parts = waiter().parts;
    queues_.enter(index, 0);
    node_waiters_.on_joined(queues_[index]);
    return queues_[index];
  }
  const Waiter* next() {
    QuotaBatch batch;
    node_waiters_.next_try(batch);
    return &queues_[batch.spread.front().waiters[0]];
  }
  void pass(int64_t ns) { driver_.clock.begin({.monotonic_ns = now_ns_ += ns, .wall_ns = 0}); }

  SpreadWaiters node_waiters_{
      {.shard = 2, .node_renewal_ns = renewal_ns}, driver_.clock, queues_, outgoing_};
  int64_t now_ns_ = base::ns_per_s;
};

TEST_F(NodeWaitersTest, one_that_leaves_does_so_once_at_each_node) {
  node_waiters_.leave_parts(waiter());
  ASSERT_EQ(outgoing_.size(), 2U);
  EXPECT_EQ(outgoing_[0].op, QuotaOp::leave_queues);
  EXPECT_EQ(outgoing_[0].cursor, 80U);
  EXPECT_EQ(outgoing_[1].op, QuotaOp::leave_node);
  EXPECT_EQ(outgoing_[1].shard, api::stop_of_node(3));
  EXPECT_EQ(outgoing_[1].waiter, 6U);
  EXPECT_EQ(outgoing_[1].cursor, 80U);
  for (const QuotaCall& call : outgoing_) EXPECT_EQ(call.arrival_ns, 7);
}

TEST_F(NodeWaitersTest, parts_that_have_left_with_a_charge_do_not_leave_again) {
  node_waiters_.forget_shards(waiter());
  node_waiters_.leave_parts(waiter());
  ASSERT_EQ(outgoing_.size(), 1U);
  EXPECT_EQ(outgoing_[0].op, QuotaOp::leave_node);
}

TEST_F(NodeWaitersTest, one_whose_nodes_are_silent_is_tried_again_and_again) {
  pass(0);
  node_waiters_.on_joined(waiter());
  EXPECT_EQ(node_waiters_.next_due_ns(), now_ns_ + renewal_ns);
  pass(renewal_ns - 1);
  node_waiters_.renew_due();
  EXPECT_FALSE(node_waiters_.has_tries());
  pass(1);
  node_waiters_.renew_due();
  ASSERT_TRUE(node_waiters_.has_tries());
  EXPECT_EQ(node_waiters_.next_due_ns(), base::never_ns);
  QuotaBatch batch;
  node_waiters_.next_try(batch);
  node_waiters_.go_on(waiter(), 0);
  EXPECT_FALSE(node_waiters_.has_tries());
  EXPECT_EQ(node_waiters_.next_due_ns(), now_ns_ + renewal_ns);
}

TEST_F(NodeWaitersTest, one_that_is_tried_for_a_report_or_has_left_is_not_renewed) {
  pass(0);
  node_waiters_.on_joined(waiter());
  node_waiters_.on_late(waiter());
  EXPECT_TRUE(node_waiters_.has_tries());
  EXPECT_EQ(node_waiters_.next_due_ns(), base::never_ns);
  queues_.leave(index_);
  EXPECT_FALSE(node_waiters_.has_tries());
}

TEST_F(NodeWaitersTest, those_that_may_be_served_and_those_that_are_renewed_alternate) {
  pass(0);
  node_waiters_.on_joined(waiter());
  Waiter& other = join(8);
  Waiter& out = join(9);
  Waiter& late = join(10);
  pass(renewal_ns);
  node_waiters_.renew_due();
  node_waiters_.on_out(out);  // a reason to try it
  node_waiters_.on_late(late);
  EXPECT_EQ(next(), &out);
  EXPECT_EQ(next(), &waiter());
  EXPECT_EQ(next(), &late);
  EXPECT_EQ(next(), &other);
  EXPECT_FALSE(node_waiters_.has_tries());
}

TEST_F(SpreadWaitersTest, one_without_parts_on_other_nodes_is_not_renewed) {
  SpreadWaiters waiters{{.node_renewal_ns = 1}, driver_.clock, queues_, outgoing_};
  waiters.on_joined(waiter());
  EXPECT_EQ(waiters.next_due_ns(), base::never_ns);
}

TEST_F(SpreadWaitersTest, a_report_for_one_that_has_left_does_nothing) {
  queues_.leave(index_);
  note_fits(1);
  EXPECT_FALSE(waiters_.has_tries());
}

TEST_F(SpreadWaitersTest, one_with_a_part_that_can_never_fit_is_tried_at_once) {
  waiters_.note_out({.waiter = index_});
  ASSERT_TRUE(waiters_.has_tries());
  next_try();
  waiters_.go_on(waiter(), 0);  // a quota has changed again
  EXPECT_FALSE(waiters_.has_tries());
  waiters_.on_out(waiter());
  EXPECT_TRUE(waiters_.has_tries());
}

TEST_F(SpreadWaitersTest, a_part_that_has_reported_that_it_fits_reports_that_it_never_will) {
  waiter().is_part = true;
  waiters_.on_fits(waiter());
  waiters_.on_out(waiter());
  waiters_.on_out(waiter());
  ASSERT_EQ(outgoing_.size(), 2U);
  EXPECT_EQ(outgoing_[1].op, QuotaOp::part_is_out);
}

TEST_F(SpreadWaitersTest, a_part_reports_to_its_home_once) {
  waiter().is_part = true;
  waiter().first_place = 3;
  waiter().home = 6;
  waiter().parts[0] = 40;
  waiters_.on_fits(waiter());
  waiters_.on_fits(waiter());
  ASSERT_EQ(outgoing_.size(), 1U);
  EXPECT_EQ(outgoing_[0].op, QuotaOp::part_fits);
  EXPECT_EQ(outgoing_[0].shard, 6U);
  EXPECT_EQ(outgoing_[0].waiter, 40U);
  EXPECT_EQ(outgoing_[0].place, 3U);
  waiter().has_reported = false;  // a try has found that it does not fit
  waiters_.on_fits(waiter());
  EXPECT_EQ(outgoing_.size(), 2U);
}

TEST_F(SpreadWaitersTest, a_waiter_of_one_shard_is_never_tried) {
  waiter().part_bits = own;
  waiters_.on_fits(waiter());
  EXPECT_FALSE(waiters_.has_tries());
}

}  // namespace
}  // namespace sluice::quota
