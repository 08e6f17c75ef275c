// Goal: a call of another node waits in this one's queues until that node's tries admit it, it has
//       left there, or that node is silent for long.
// Method: one worker, or two, of two nodes with a store each; the test plays the other node, which
//         has the call's first subject.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/visit_times.hpp"
#include "server/visited_waiters.hpp"
#include "tests/unit/server/keeping_sender.hpp"
#include "tests/unit/server/task_side.hpp"

namespace sluice::server {
namespace {

using api::Pass;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using State = api::SpreadCall::State;

constexpr uint64_t tokens_max = 100;

class NodeWaitsTest : public ::testing::Test {
 protected:
  explicit NodeWaitsTest(uint32_t shards = 1)
      : worker_group_({.shards = shards}),
        side_(worker_group_, 0, fleet(), quota::Options{.shards = shards}) {
    side_.nodes.attach(sender_);
    side_.tasks.attach(sender_);
    side_.context.now.monotonic_ns = base::ns_per_s;
    fill(here_);
  }
  void fill(std::string_view subject) {
    api::QuotaBatch& batch = batch_of({.op = QuotaOp::put, .subjects_count = 1}, {subject});
    batch.new_quotas = {{.limits = {{.name = "tph",
                                     .metric = api::Metric::tokens,
                                     .kind = api::LimitKind::fixed,
                                     .amount = tokens_max,
                                     .period_ms = 3'600'000}},
                         .profile = {}}};
    side_.tasks.ask(side_.ended_session, 1, batch);
    charge(tokens_max, subject);
  }
  static peer::FleetOptions fleet() {
    peer::FleetOptions options{.secret = "shared"};
    options.instances = {{"http://10.0.0.1:8080", "10.0.0.1", 8080},
                         {"http://10.0.0.2:8080", "10.0.0.2", 8080}};
    return options;
  }
  std::string subject_of(uint32_t node, uint32_t shard = 0) {
    for (int number = 0;; ++number) {
      std::string name = "model" + std::to_string(number);
      const bool is_there = side_.mailboxes.nodes().node_of_subject(name) == node;
      if (is_there && side_.mailboxes.shard_of(name) == shard) return name;
    }
  }
  api::QuotaBatch& batch_of(const QuotaCall& call, const std::vector<std::string_view>& subjects) {
    api::QuotaBatch& batch = side_.tasks.take_batch();
    batch.calls.push_back(call);
    batch.subjects.assign(subjects.begin(), subjects.end());
    return batch;
  }
  void charge(uint64_t tokens) { charge(tokens, here_); }
  void charge(uint64_t tokens, std::string_view subject) {
    side_.tasks.ask(
        side_.ended_session, 1,
        batch_of({.op = QuotaOp::record, .subjects_count = 1, .amounts = {.input_tokens = tokens}},
                 {subject}));
  }
  void consume(uint64_t tokens) {
    side_.tasks.ask(
        side_.ended_session, 1,
        batch_of({.op = QuotaOp::consume, .subjects_count = 1, .amounts = {.input_tokens = tokens}},
                 {here_}));
  }
  void free_all() { free_all(here_); }
  void free_all(std::string_view subject) {
    side_.tasks.ask(side_.ended_session, 1,
                    batch_of({.op = QuotaOp::reset, .subjects_count = 1}, {subject}));
    step();
  }
  static api::QuotaBatch usage_at(TaskSide& side, std::string_view subject) {
    api::QuotaBatch batch;
    batch.calls.push_back(
        {.op = QuotaOp::usage, .subjects_count = 1, .shard = side.mailboxes.shard()});
    batch.subjects.push_back(subject);
    batch.make_answers();
    side.store->decide(batch, side.context.now, 0);
    return batch;
  }
  uint64_t used() { return usage_at(side_, here_).limits.at(0).used; }
  // The other node's batch has one call more in front of this one.
  void visit(Pass pass, State state, QuotaCode verdict, bool is_try) {
    api::QuotaBatch& batch = asked_->tasks.take_node_batch();
    batch.stays_here = true;
    batch.pass = pass;
    batch.arrival = {.ns = 7, .number = is_try ? 501U : 500U};
    batch.visit = {.number = round_,
                   .sender = 9,
                   .home = home_,
                   .places = {is_try ? 0U : 1U},
                   .subject_bits = {static_cast<uint8_t>((1U << names_.size()) - 2)}};
    batch.calls.push_back({.op = QuotaOp::consume,
                           .flags = is_try ? uint8_t{0} : api::quota_flag::may_wait,
                           .subjects_count = static_cast<uint8_t>(names_.size()),
                           .amounts = {.input_tokens = 30}});
    batch.subjects.assign(names_.size(), {});
    if (!is_try) batch.subjects.assign(names_.begin(), names_.end());
    api::SpreadCall part{.state = state, .is_try = is_try, .home_shard = 3, .rounds = 1};
    if (shows_obstacle_) {
      batch.calls[0].flags |= api::quota_flag::wants_limits;
      part.code = QuotaCode::tokens_exceeded;
    }
    part.reservation = 77;
    part.holds.fill(api::SpreadCall::no_hold);
    part.waiters.fill(api::no_waiter);
    part.waiters[0] = 12;
    make_relative(part, side_.context.now);
    batch.spread.push_back(part);
    batch.answers.assign(1, {.code = verdict});
    asked_->tasks.ask(asked_->ended_session, 2, batch);
    step();
  }
  void wait_here() {
    visit(Pass::ask, State::undecided, QuotaCode::none, false);
    visit(Pass::apply, State::queued, QuotaCode::queued, false);
    ++round_;
  }
  void try_it(State state, QuotaCode verdict) {
    visit(Pass::ask, State::undecided, QuotaCode::none, true);
    visit(Pass::apply, state, verdict, true);
    ++round_;
  }
  void leave() {
    api::QuotaBatch& batch = side_.tasks.take_node_batch();
    batch.stays_here = true;
    batch.calls.push_back({.op = QuotaOp::leave_node, .cursor = 501, .arrival_ns = 7});
    side_.tasks.ask(side_.ended_session, 3, batch);
    step();
  }
  virtual void turn_others() {}
  void step() {
    turn_others();
    side_.store->run_due(side_.context.now);
    side_.tasks.make_own_calls();
    side_.tasks.make_own_calls();  // of the first ones, to other nodes
    turn_others();
  }
  void pass(int64_t ms) {
    side_.context.now.monotonic_ns += ms * base::ns_per_ms;
    step();
  }
  // What this node has reported to the other one.
  std::vector<QuotaCall> reports() {
    std::vector<QuotaCall> calls;
    for (const peer::QuotaParcel* parcel : sender_.parcels) {
      calls.insert(calls.end(), parcel->batch.calls.begin(), parcel->batch.calls.end());
    }
    return calls;
  }

  WorkerGroup worker_group_;
  KeepingSender sender_;
  TaskSide side_;
  TaskSide* asked_ = &side_;  // the worker to which the other node's visits come
  const std::string here_ = subject_of(0);
  const std::string there_ = subject_of(1);
  std::vector<std::string> names_{there_, here_};  // of the call
  uint32_t home_ = 1;
  uint64_t round_ = 1;
  bool shows_obstacle_ = false;  // at another stop; all limits are to be shown
};

TEST_F(NodeWaitsTest, a_part_reports_to_the_shard_of_its_home_once_it_fits) {
  wait_here();
  EXPECT_TRUE(side_.tasks.has_visited_waiters());
  EXPECT_TRUE(reports().empty());
  free_all();
  ASSERT_EQ(reports().size(), 1U);
  const QuotaCall report = reports().front();
  EXPECT_EQ(report.op, QuotaOp::part_fits);
  EXPECT_EQ(report.place, 1);
  EXPECT_EQ(report.home_shard, 3);
  EXPECT_EQ(report.waiter, 12U);
}

TEST_F(NodeWaitsTest, later_calls_do_not_take_what_it_waits_for) {
  wait_here();
  free_all();
  consume(1);
  EXPECT_EQ(used(), 0U);
}

TEST_F(NodeWaitsTest, a_try_that_is_admitted_charges_it_and_takes_it_out) {
  wait_here();
  free_all();
  try_it(State::admitted, QuotaCode::ok);
  EXPECT_EQ(used(), 30U);
  EXPECT_FALSE(side_.tasks.has_visited_waiters());
  charge(1);
  EXPECT_EQ(used(), 31U);
}

TEST_F(NodeWaitsTest, a_try_after_which_it_waits_on_charges_nothing) {
  wait_here();
  free_all();
  try_it(State::queued, QuotaCode::queued);
  EXPECT_EQ(used(), 0U);
  EXPECT_TRUE(side_.tasks.has_visited_waiters());
  try_it(State::admitted, QuotaCode::ok);
  EXPECT_EQ(used(), 30U);
}

TEST_F(NodeWaitsTest, one_that_has_left_at_its_home_is_in_nobodys_way) {
  wait_here();
  leave();
  leave();
  EXPECT_FALSE(side_.tasks.has_visited_waiters());
  free_all();
  EXPECT_TRUE(reports().empty());
  try_it(State::refused, QuotaCode::owner_unreachable);
  EXPECT_EQ(used(), 0U);
}

TEST_F(NodeWaitsTest, one_whose_home_is_silent_leaves) {
  wait_here();
  const int64_t kept_ms = waiter_kept_timeouts * fleet().timeout_ms;
  pass(kept_ms - 1);
  visit(Pass::ask, State::undecided, QuotaCode::none, true);
  pass(kept_ms - 1);
  EXPECT_TRUE(side_.tasks.has_visited_waiters());
  pass(1);
  EXPECT_FALSE(side_.tasks.has_visited_waiters());
}

TEST_F(NodeWaitsTest, a_try_without_a_verdict_is_charged_and_has_left) {
  wait_here();
  free_all();
  visit(Pass::ask, State::undecided, QuotaCode::none, true);
  pass(fleet().timeout_ms);
  EXPECT_EQ(used(), 30U);
  EXPECT_FALSE(side_.tasks.has_visited_waiters());
}

TEST_F(NodeWaitsTest, one_whose_try_held_nothing_waits_on_without_a_verdict) {
  wait_here();
  free_all();
  shows_obstacle_ = true;
  visit(Pass::ask, State::undecided, QuotaCode::none, true);
  pass(fleet().timeout_ms);
  EXPECT_EQ(used(), 0U);
  EXPECT_TRUE(side_.tasks.has_visited_waiters());
  EXPECT_TRUE(side_.tasks.is_idle_for_nodes());
}

TEST_F(NodeWaitsTest, nobody_awaits_a_try_of_a_part_that_is_gone) {
  wait_here();
  free_all();
  charge(50);
  for (int tries = 0; tries < 2; ++tries) {  // the second one awaits the verdict on the first
    visit(Pass::ask, State::undecided, QuotaCode::none, true);
    ++round_;
  }
  pass(fleet().timeout_ms);
  EXPECT_EQ(used(), 80U);
  EXPECT_FALSE(side_.tasks.has_visited_waiters());
  visit(Pass::ask, State::undecided, QuotaCode::none, true);
  pass(fleet().timeout_ms);
  consume(20);
  EXPECT_EQ(used(), 100U);
}

TEST_F(NodeWaitsTest, one_that_leaves_while_it_is_held_is_not_looked_for_any_more) {
  wait_here();
  free_all();
  visit(Pass::ask, State::undecided, QuotaCode::none, true);
  leave();
  visit(Pass::apply, State::admitted, QuotaCode::ok, true);
  EXPECT_EQ(used(), 30U);
  EXPECT_TRUE(side_.tasks.is_idle_for_nodes());
}

// One that has another list.
TEST_F(NodeWaitsTest, nothing_waits_for_a_home_that_is_no_other_node_of_the_list) {
  for (const uint32_t home : {0U, 2U, 1'000U}) {
    home_ = home;
    wait_here();
    EXPECT_FALSE(side_.tasks.has_visited_waiters());
    EXPECT_TRUE(side_.tasks.is_idle_for_nodes());
  }
  free_all();
  EXPECT_TRUE(reports().empty());
}

TEST_F(NodeWaitsTest, without_a_verdict_it_does_not_wait) {
  visit(Pass::ask, State::undecided, QuotaCode::none, false);
  pass(fleet().timeout_ms);
  EXPECT_FALSE(side_.tasks.has_visited_waiters());
  EXPECT_TRUE(side_.tasks.is_idle_for_nodes());
  free_all();
  EXPECT_TRUE(reports().empty());
}

// The call has a subject of another shard of this node, too.
class NodeWaitsAtTwoShardsTest : public NodeWaitsTest {
 protected:
  NodeWaitsAtTwoShardsTest() : NodeWaitsTest(2) {
    second_.nodes.attach(sender_);
    second_.tasks.attach(sender_);
    names_.push_back(subject_of(0, 1));
    fill(names_.back());
    step();
  }
  void turn_others() override {
    second_.context.now = side_.context.now;
    for (int turn = 0; turn < 6; ++turn) {
      if (!first_stands_still_) side_.turn();
      second_.turn();
      side_.tasks.make_own_calls();
      second_.tasks.make_own_calls();
    }
  }
  uint32_t waiting_at_second() { return usage_at(second_, names_.back()).rows.at(0).waiting; }
  uint64_t used_at_second() { return usage_at(second_, names_.back()).limits.at(0).used; }

  TaskSide second_{worker_group_, 1, fleet(), quota::Options{.shard = 1, .shards = 2}};
  bool first_stands_still_ = false;
};

// The second worker has its parts. The cancel comes to the first one.
TEST_F(NodeWaitsAtTwoShardsTest, a_cancel_holds_at_each_shard_against_a_verdict_under_way) {
  free_all();
  free_all(names_.back());
  asked_ = &second_;
  visit(Pass::ask, State::undecided, QuotaCode::none, false);
  EXPECT_EQ(used() + used_at_second(), 60U);
  first_stands_still_ = true;
  visit(Pass::apply, State::admitted, QuotaCode::ok, false);
  api::QuotaBatch& cancel = side_.tasks.take_node_batch();
  cancel.stays_here = true;
  cancel.calls.push_back(
      {.op = QuotaOp::end_part, .flags = api::quota_flag::cancels, .reservation = 77});
  side_.tasks.ask(side_.ended_session, 3, cancel);
  side_.mailboxes.flush();
  second_.turn();
  first_stands_still_ = false;
  step();
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(used_at_second(), 0U);
}

TEST_F(NodeWaitsAtTwoShardsTest, a_try_without_a_verdict_has_left_where_it_did_not_fit) {
  wait_here();
  EXPECT_EQ(waiting_at_second(), 1U);
  free_all();  // not at the second shard
  visit(Pass::ask, State::undecided, QuotaCode::none, true);
  pass(fleet().timeout_ms);
  EXPECT_EQ(used(), 30U);
  EXPECT_FALSE(side_.tasks.has_visited_waiters());
  EXPECT_EQ(waiting_at_second(), 0U);
}

// The end comes over another lane than the first use.
TEST_F(NodeWaitsAtTwoShardsTest, a_binding_that_has_ended_is_forgotten_by_every_worker) {
  session::NodeBindings& bindings = side_.context.node_bindings;
  bindings.join(9);
  bindings.use(9, 4);
  api::QuotaBatch& batch = second_.tasks.take_node_batch();
  batch.stays_here = true;
  batch.calls.push_back({.op = QuotaOp::end_binding, .binding = 4});
  second_.tasks.ask(second_.ended_session, 3, batch);
  step();
  bindings.leave(9, 0);
  bindings.end_due(session::NodeBindings::kept_ms, [](uint64_t) { FAIL() << "it is still there"; });
}

// The first worker has its parts.
TEST_F(NodeWaitsAtTwoShardsTest, one_leaves_whichever_worker_receives_that) {
  wait_here();
  api::QuotaBatch& batch = second_.tasks.take_node_batch();
  batch.stays_here = true;
  batch.calls.push_back({.op = QuotaOp::leave_node, .cursor = 501, .arrival_ns = 7});
  second_.tasks.ask(second_.ended_session, 3, batch);
  step();
  step();
  EXPECT_FALSE(side_.tasks.has_visited_waiters());
  EXPECT_EQ(waiting_at_second(), 0U);
}

}  // namespace
}  // namespace sluice::server
