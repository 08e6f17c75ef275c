// Goal: each call of a batch is decided by its node, and its answer is at its place; what is owed
//       to other nodes is sent until they have it.
// Method: one worker of two nodes; parcels for the other one are kept, and the test answers them.
#include "server/node_calls.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "server/visited_waiters.hpp"
#include "tests/unit/server/keeping_sender.hpp"
#include "tests/unit/server/task_side.hpp"
#include "wire/forward_quota.hpp"

namespace sluice::server {
namespace {

using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using peer::QuotaParcel;

class NodeCallsTest : public ::testing::Test {
 protected:
  static peer::FleetOptions fleet(base::PeerFailure on_failure) {
    peer::FleetOptions options{.on_failure = on_failure, .secret = "shared"};
    options.instances = {{"http://10.0.0.1:8080", "10.0.0.1", 8080},
                         {"http://10.0.0.2:8080", "10.0.0.2", 8080}};
    return options;
  }
  explicit NodeCallsTest(base::PeerFailure on_failure = base::PeerFailure::error)
      : side_(worker_group_, 0, fleet(on_failure)) {
    side_.nodes.attach(sender_);
    pass(1'000);
  }
  void pass(int64_t ms) { side_.context.now.monotonic_ns += ms * base::ns_per_ms; }

  std::string subject_of(uint32_t node, int from = 0) {
    for (int number = from;; ++number) {
      std::string name = "model" + std::to_string(number);
      if (side_.mailboxes.nodes().node_of_subject(name) == node) return name;
    }
  }
  uint64_t reservation_of(uint32_t node, uint64_t number = 1) {
    return proto::reservation_id::make(0, false, number, proto::reservation_id::slot_of_node(node));
  }
  void add(api::QuotaBatch& batch, QuotaCall call, const std::vector<std::string>& subjects) {
    call.subjects_count = static_cast<uint8_t>(subjects.size());
    call.first_subject = static_cast<uint32_t>(batch.subjects.size());
    batch.calls.push_back(call);
    for (const std::string& subject : subjects) {
      batch.subjects.push_back(texts_.emplace_back(subject));
    }
  }
  // The parcel that was posted last.
  QuotaParcel& parcel() { return *sender_.parcels.back(); }
  std::vector<std::string> subjects_of(const QuotaParcel& parcel) {
    return {parcel.batch.subjects.begin(), parcel.batch.subjects.end()};
  }
  // As Peers does. Whether the task has all answers.
  bool answer(QuotaParcel& parcel, const std::vector<QuotaAnswer>& answers) {
    parcel.batch.answers = answers;
    parcel.is_answered = true;
    return side_.nodes.on_parcel(parcel) != nullptr;
  }
  bool lose(QuotaParcel& parcel) {
    parcel.is_answered = false;
    return side_.nodes.on_parcel(parcel) != nullptr;
  }
  std::vector<QuotaCode> codes() const {
    std::vector<QuotaCode> all;
    for (const QuotaAnswer& answer : task_.batch.answers) all.push_back(answer.code);
    return all;
  }

  WorkerGroup worker_group_{{.shards = 1}};
  KeepingSender sender_;
  TaskSide side_;
  std::deque<std::string> texts_;
  QuotaTask task_;
};

TEST_F(NodeCallsTest, calls_of_this_node_stay) {
  add(task_.batch, {.op = QuotaOp::reserve}, {subject_of(0)});
  task_.batch.calls.push_back({.op = QuotaOp::settle, .reservation = reservation_of(0)});
  task_.batch.calls.push_back({.op = QuotaOp::settle, .reservation = 5});  // without a node
  task_.batch.calls.push_back({.op = QuotaOp::page});
  task_.batch.calls.push_back({.op = QuotaOp::reset_all});
  for (const QuotaCall& call : task_.batch.calls) {
    EXPECT_FALSE(side_.nodes.leaves(task_.batch, call));
  }
  EXPECT_FALSE(side_.nodes.take_out(task_));
  EXPECT_EQ(task_.batch.calls.size(), 5U);
  EXPECT_TRUE(side_.nodes.note_decided_here(task_));
  EXPECT_TRUE(sender_.parcels.empty());
}

TEST_F(NodeCallsTest, calls_that_another_node_has_sent_stay) {
  add(task_.batch, {.op = QuotaOp::reserve}, {subject_of(1)});
  task_.batch.stays_here = true;
  EXPECT_FALSE(side_.nodes.leaves(task_.batch, task_.batch.calls[0]));
  EXPECT_FALSE(side_.nodes.take_out(task_));
}

TEST_F(NodeCallsTest, calls_of_another_node_leave_together) {
  add(task_.batch, {.op = QuotaOp::reserve, .lifetime_ms = 70}, {subject_of(1)});
  task_.batch.calls.push_back({.op = QuotaOp::settle, .reservation = reservation_of(1)});
  EXPECT_TRUE(side_.nodes.leaves(task_.batch, task_.batch.calls[1]));
  ASSERT_TRUE(side_.nodes.take_out(task_));
  EXPECT_TRUE(task_.batch.calls.empty());
  ASSERT_EQ(sender_.parcels.size(), 1U);
  EXPECT_EQ(parcel().target, side_.mailboxes.nodes().first_target(1));
  EXPECT_EQ(parcel().timeout_ms, 2'000);
  EXPECT_EQ(parcel().batch.calls[0].lifetime_ms, 70U);
  EXPECT_EQ(subjects_of(parcel()), std::vector{subject_of(1)});
  EXPECT_FALSE(side_.nodes.is_idle());
  task_.batch.make_answers();
  EXPECT_FALSE(side_.nodes.note_decided_here(task_));
  EXPECT_TRUE(answer(parcel(), {{.code = QuotaCode::ok, .reservation = 9},
                                {.code = QuotaCode::unknown_reservation}}));
  EXPECT_EQ(codes(), (std::vector{QuotaCode::ok, QuotaCode::unknown_reservation}));
  EXPECT_EQ(task_.batch.answers[0].reservation, 9U);
  EXPECT_EQ(task_.batch.calls.size(), 2U);
  EXPECT_TRUE(side_.nodes.is_idle());
}

TEST_F(NodeCallsTest, answers_of_both_nodes_are_at_their_places) {
  for (const uint32_t node : {1U, 0U, 1U, 0U}) {
    add(task_.batch, {.op = QuotaOp::usage}, {subject_of(node)});
  }
  ASSERT_TRUE(side_.nodes.take_out(task_));
  ASSERT_EQ(task_.batch.calls.size(), 2U);
  task_.batch.make_answers();
  task_.batch.answer_text = "own";
  task_.batch.limits.resize(3);
  task_.batch.quotas.resize(1);
  task_.batch.rows = {{.name_bytes = 3}, {.name_bytes = 3}};
  task_.batch.answers[0] = {.code = QuotaCode::ok, .rows_count = 1};
  task_.batch.answers[1] = {.code = QuotaCode::ok, .first_row = 1, .rows_count = 1};
  EXPECT_FALSE(side_.nodes.note_decided_here(task_));
  QuotaParcel& other = parcel();
  other.batch.answer_text = "theirs";
  other.batch.limits.resize(1);
  other.batch.quotas = {{.profile = "p"}};
  other.batch.rows = {{.name_bytes = 6, .source = api::QuotaSource::profile, .limits_count = 1},
                      {.name_begin = 1, .name_bytes = 5}};
  EXPECT_TRUE(answer(other, {{.code = QuotaCode::ok, .first_row = 1, .rows_count = 1},
                             {.code = QuotaCode::ok, .first_row = 0, .rows_count = 1}}));
  const api::QuotaBatch& batch = task_.batch;
  const auto name_of = [&](size_t call) {
    return batch.name_of(batch.rows.at(batch.answers.at(call).first_row));
  };
  EXPECT_EQ(name_of(0), "heirs");
  EXPECT_EQ(name_of(1), "own");
  EXPECT_EQ(name_of(2), "theirs");
  EXPECT_EQ(name_of(3), "own");
  const api::SubjectRow& row = batch.rows[batch.answers[2].first_row];
  EXPECT_EQ(row.first_limit, 3U);
  EXPECT_EQ(batch.quotas.at(row.quota).profile, "p");
}

TEST_F(NodeCallsTest, holders_and_limits_keep_what_they_point_at) {
  add(task_.batch, {.op = QuotaOp::holders}, {subject_of(1)});
  add(task_.batch, {.op = QuotaOp::reserve}, {subject_of(1)});
  side_.nodes.take_out(task_);
  task_.batch.make_answers();
  task_.batch.answer_text = "own";
  task_.batch.holders.resize(2);
  task_.batch.limits.resize(4);
  side_.nodes.note_decided_here(task_);
  for (QuotaParcel* const each : {sender_.parcels[0]}) {
    each->batch.answer_text = "me";
    each->batch.holders.resize(1);
    each->batch.holders[0].owner = {.begin = 0, .bytes = 2};
    each->batch.limits.resize(2);
    answer(*each, {{.code = QuotaCode::ok, .rows_count = 1},
                   {.code = QuotaCode::ok, .first_limit = 1, .limits_count = 1}});
  }
  const api::QuotaBatch& batch = task_.batch;
  EXPECT_EQ(batch.answers[0].first_holder, 2U);
  EXPECT_EQ(batch.text_of(batch.holders[2].owner), "me");
  EXPECT_EQ(batch.answers[1].first_limit, 5U);
}

TEST_F(NodeCallsTest, a_node_that_answers_first_waits_for_the_own_answers) {
  add(task_.batch, {.op = QuotaOp::consume}, {subject_of(1)});
  add(task_.batch, {.op = QuotaOp::consume}, {subject_of(0)});
  side_.nodes.take_out(task_);
  task_.batch.make_answers();
  EXPECT_FALSE(answer(parcel(), {{.code = QuotaCode::rpm_exceeded}}));
  task_.batch.answers[0].code = QuotaCode::ok;
  EXPECT_TRUE(side_.nodes.note_decided_here(task_));
  EXPECT_EQ(codes(), (std::vector{QuotaCode::rpm_exceeded, QuotaCode::ok}));
}

TEST_F(NodeCallsTest, the_first_subjects_node_has_a_call_about_several_nodes) {
  add(task_.batch, {.op = QuotaOp::reserve}, {subject_of(0), subject_of(1)});
  add(task_.batch, {.op = QuotaOp::reserve}, {subject_of(1), subject_of(0)});
  EXPECT_FALSE(side_.nodes.leaves(task_.batch, task_.batch.calls[0]));
  EXPECT_TRUE(side_.nodes.leaves(task_.batch, task_.batch.calls[1]));
}

TEST_F(NodeCallsTest, a_call_that_may_wait_does_so_at_the_first_subjects_node) {
  const QuotaCall call{.op = QuotaOp::reserve, .flags = api::quota_flag::may_wait};
  add(task_.batch, call, {subject_of(0), subject_of(1)});
  add(task_.batch, call, {subject_of(1), subject_of(0)});
  EXPECT_FALSE(side_.nodes.leaves(task_.batch, task_.batch.calls[0]));
  EXPECT_TRUE(side_.nodes.leaves(task_.batch, task_.batch.calls[1]));
}

// What its home does not hear of, it finds out when it asks again.
TEST_F(NodeCallsTest, a_report_on_a_waiter_is_sent_once) {
  side_.nodes.bring({.op = QuotaOp::part_fits, .shard = api::stop_of_node(1), .waiter = 4});
  side_.nodes.bring({.op = QuotaOp::part_is_out, .shard = api::stop_of_node(1), .waiter = 4});
  side_.nodes.send_own_calls();
  ASSERT_EQ(parcel().batch.calls.size(), 2U);
  lose(parcel());
  pass(NodeCalls::own_calls_pause_ms);
  EXPECT_FALSE(side_.nodes.has_own_calls());
}

TEST_F(NodeCallsTest, a_waiter_leaves_another_node_until_that_has_forgotten_it) {
  side_.nodes.bring({.op = QuotaOp::leave_node, .shard = api::stop_of_node(1), .cursor = 8});
  const int64_t kept_ms = waiter_kept_timeouts * 2'000;
  for (int64_t passed_ms = 0; passed_ms < kept_ms; passed_ms += NodeCalls::own_calls_pause_ms) {
    ASSERT_TRUE(side_.nodes.has_own_calls());
    side_.nodes.send_own_calls();
    lose(parcel());
    pass(NodeCalls::own_calls_pause_ms);
  }
  side_.nodes.send_own_calls();
  lose(parcel());
  pass(NodeCalls::own_calls_pause_ms);
  EXPECT_FALSE(side_.nodes.has_own_calls());
}

TEST_F(NodeCallsTest, waiters_leave_room_for_refunds) {
  const auto leave = [&] {
    side_.nodes.bring({.op = QuotaOp::leave_node, .shard = api::stop_of_node(1), .cursor = 8});
  };
  const auto sent_count = [&] {
    size_t count = 0;
    for (const QuotaParcel* const each : sender_.parcels) count += each->batch.calls.size();
    return count;
  };
  for (size_t i = 0; i <= NodeCalls::own_calls_max; ++i) leave();
  side_.nodes.repeat({.op = QuotaOp::end_part, .reservation = reservation_of(1)}, 1, 0);
  side_.nodes.send_own_calls();
  EXPECT_EQ(sent_count(), NodeCalls::waiter_calls_max + 1);
  EXPECT_EQ(side_.nodes.dropped_count(),
            NodeCalls::own_calls_max + 1 - NodeCalls::waiter_calls_max);
  leave();  // those that were sent have left their places
  side_.nodes.send_own_calls();
  EXPECT_EQ(sent_count(), NodeCalls::waiter_calls_max + 2);
}

TEST_F(NodeCallsTest, nothing_is_brought_to_a_node_that_the_list_does_not_have) {
  for (const uint32_t node : {0U, 2U}) {
    side_.nodes.bring({.op = QuotaOp::part_fits, .shard = api::stop_of_node(node), .waiter = 4});
  }
  EXPECT_FALSE(side_.nodes.has_own_calls());
}

TEST_F(NodeCallsTest, a_position_is_that_of_one_subject) {
  const std::vector<std::string> apart{subject_of(0), subject_of(1)};
  add(task_.batch, {.op = QuotaOp::position, .place = 0}, apart);
  add(task_.batch, {.op = QuotaOp::position, .place = 1}, apart);
  side_.nodes.take_out(task_);
  EXPECT_EQ(task_.share.own, std::vector<uint32_t>{0});
  ASSERT_EQ(sender_.parcels.size(), 1U);
  EXPECT_EQ(parcel().batch.calls[0].place, 1);
  EXPECT_EQ(subjects_of(parcel()), apart);
  task_.batch.make_answers();
  side_.nodes.note_decided_here(task_);
  answer(parcel(), {{.code = QuotaCode::ok}});
}

TEST_F(NodeCallsTest, a_put_brings_its_quota_and_has_time_for_the_disk) {
  add(task_.batch, {.op = QuotaOp::put}, {subject_of(1)});
  task_.batch.new_quotas = {{.overtakers_max = 4}};
  side_.nodes.take_out(task_);
  ASSERT_EQ(parcel().batch.new_quotas.size(), 1U);
  EXPECT_EQ(parcel().batch.new_quotas[0].overtakers_max, 4U);
  EXPECT_EQ(parcel().timeout_ms, 12'000);
  task_.batch.make_answers();
  side_.nodes.note_decided_here(task_);
  answer(parcel(), {{.code = QuotaCode::ok}});
}

TEST_F(NodeCallsTest, many_calls_leave_in_several_parcels) {
  const size_t count = wire::forwarded_calls_max + 1;
  for (size_t i = 0; i < count; ++i) {
    task_.batch.calls.push_back({.op = QuotaOp::settle, .reservation = reservation_of(1, i)});
  }
  side_.nodes.take_out(task_);
  ASSERT_EQ(sender_.parcels.size(), 2U);
  EXPECT_EQ(sender_.parcels[1]->batch.calls.size(), 1U);
  task_.batch.make_answers();
  side_.nodes.note_decided_here(task_);
  std::vector<QuotaAnswer> answers(wire::forwarded_calls_max, {.code = QuotaCode::ok});
  EXPECT_FALSE(answer(*sender_.parcels[0], answers));
  EXPECT_TRUE(answer(*sender_.parcels[1], {{.code = QuotaCode::already_settled}}));
  EXPECT_EQ(task_.batch.answers.back().code, QuotaCode::already_settled);
  EXPECT_EQ(task_.batch.calls.back().reservation, reservation_of(1, count - 1));
}

TEST_F(NodeCallsTest, long_calls_leave_in_several_parcels_or_not_at_all) {
  std::vector<std::string> names;
  const std::string tag = "{" + subject_of(1) + "}";
  for (int i = 0; i < 3; ++i)
    names.push_back(tag + std::string(60'000, static_cast<char>('a' + i)));
  add(task_.batch, {.op = QuotaOp::record}, names);
  add(task_.batch, {.op = QuotaOp::record}, names);
  names.insert(names.end(), {tag + std::string(60'000, 'x'), tag + std::string(60'000, 'y')});
  add(task_.batch, {.op = QuotaOp::record}, names);  // 300 KB: more than a frame
  side_.nodes.take_out(task_);
  EXPECT_EQ(sender_.parcels.size(), 2U);
  for (const QuotaParcel* const each : sender_.parcels) {
    EXPECT_LE(wire::encode_forward_quota(1, 1, each->batch).size() * sizeof(uint64_t),
              limits::frame_bytes_max);
  }
  task_.batch.make_answers();
  side_.nodes.note_decided_here(task_);
  answer(*sender_.parcels[0], {{.code = QuotaCode::ok}});
  answer(*sender_.parcels[1], {{.code = QuotaCode::ok}});
  EXPECT_EQ(codes(), (std::vector{QuotaCode::ok, QuotaCode::ok, QuotaCode::owner_unreachable}));
}

TEST_F(NodeCallsTest, too_many_limits_are_left_out) {
  for (int i = 0; i < 2; ++i) {
    for (size_t call = 0; call < wire::forwarded_calls_max; ++call) {
      add(task_.batch, {.op = QuotaOp::check}, {subject_of(1)});
    }
  }
  side_.nodes.take_out(task_);
  task_.batch.make_answers();
  side_.nodes.note_decided_here(task_);
  ASSERT_EQ(sender_.parcels.size(), 2U);
  const std::vector<QuotaAnswer> answers(wire::forwarded_calls_max,
                                         {.code = QuotaCode::ok, .limits_count = 10});
  for (QuotaParcel* const each : std::vector(sender_.parcels)) {
    each->batch.limits.resize(limits::quota_reports_max - 1);
    answer(*each, answers);
  }
  EXPECT_LE(task_.batch.limits.size(), limits::quota_reports_max);
  EXPECT_FALSE(task_.batch.answers.front().limits_left_out);
  EXPECT_TRUE(task_.batch.answers.back().limits_left_out);
  EXPECT_EQ(task_.batch.answers.back().limits_count, 0U);
}

// ---------------------------------------------------------------------------------- failures

class NodeCallsFailureTest : public NodeCallsTest,
                             public ::testing::WithParamInterface<base::PeerFailure> {
 protected:
  NodeCallsFailureTest() : NodeCallsTest(GetParam()) {}
};

TEST_P(NodeCallsFailureTest, a_node_that_does_not_answer_is_answered_for) {
  add(task_.batch, {.op = QuotaOp::reserve}, {subject_of(1)});
  add(task_.batch, {.op = QuotaOp::check}, {subject_of(1)});
  add(task_.batch, {.op = QuotaOp::record}, {subject_of(1)});
  task_.batch.calls.push_back({.op = QuotaOp::settle, .reservation = reservation_of(1)});
  side_.nodes.take_out(task_);
  task_.batch.make_answers();
  side_.nodes.note_decided_here(task_);
  parcel().failure = api::NodeFailure::is_gocc;
  EXPECT_TRUE(lose(parcel()));
  // Quota calls are decided by their owner alone, whatever `local` and `open` say.
  const QuotaCode denied = GetParam() == base::PeerFailure::closed ? QuotaCode::failed_closed
                                                                   : QuotaCode::owner_unreachable;
  EXPECT_EQ(codes(), (std::vector{denied, denied, QuotaCode::owner_unreachable,
                                  QuotaCode::owner_unreachable}));
  EXPECT_EQ(task_.batch.answers[0].retry_after_ms, 1'000);
  for (const QuotaAnswer& answer : task_.batch.answers) {
    EXPECT_EQ(answer.failed_node_plus_one, 2U);
    EXPECT_EQ(answer.node_failure, api::NodeFailure::is_gocc);
  }
}

INSTANTIATE_TEST_SUITE_P(NodeCalls, NodeCallsFailureTest,
                         ::testing::Values(base::PeerFailure::error, base::PeerFailure::closed,
                                           base::PeerFailure::local, base::PeerFailure::open));

// ------------------------------------------------------------------- calls of the worker's own

TEST_F(NodeCallsTest, undelivered_reservations_are_cancelled_where_they_are) {
  EXPECT_FALSE(side_.nodes.cancel_undelivered(reservation_of(0)));
  EXPECT_TRUE(side_.nodes.cancel_undelivered(reservation_of(1, 5)));
  EXPECT_TRUE(side_.nodes.cancel_undelivered(reservation_of(1, 6)));
  EXPECT_FALSE(side_.nodes.is_idle());
  EXPECT_TRUE(side_.nodes.has_own_calls());
  side_.nodes.send_own_calls();
  EXPECT_FALSE(side_.nodes.has_own_calls());
  ASSERT_EQ(sender_.parcels.size(), 1U);
  ASSERT_EQ(parcel().batch.calls.size(), 2U);
  EXPECT_EQ(parcel().batch.calls[0].op, QuotaOp::cancel);
  EXPECT_EQ(parcel().batch.calls[0].flags, api::quota_flag::undelivered);
  answer(parcel(), {{.code = QuotaCode::ok}, {.code = QuotaCode::unknown_reservation}});
  EXPECT_TRUE(side_.nodes.is_idle());
}

TEST_F(NodeCallsTest, own_calls_are_repeated_until_they_are_answered) {
  side_.nodes.cancel_undelivered(reservation_of(1, 5));
  side_.nodes.send_own_calls();
  lose(parcel());
  EXPECT_TRUE(side_.nodes.is_idle());  // a server that stops does not wait for that
  EXPECT_FALSE(side_.nodes.has_own_calls());
  pass(NodeCalls::own_calls_pause_ms);
  ASSERT_TRUE(side_.nodes.has_own_calls());
  side_.nodes.send_own_calls();
  EXPECT_EQ(parcel().batch.calls[0].reservation, reservation_of(1, 5));
  answer(parcel(), {{.code = QuotaCode::ok}});
  pass(NodeCalls::own_calls_pause_ms);
  EXPECT_FALSE(side_.nodes.has_own_calls());
}

TEST_F(NodeCallsTest, own_calls_are_given_up_in_the_end) {
  side_.nodes.cancel_undelivered(reservation_of(1, 5));
  int times = 0;
  for (int64_t ms = 0; ms <= NodeCalls::own_calls_kept_ms; ms += NodeCalls::own_calls_pause_ms) {
    if (side_.nodes.has_own_calls()) {
      side_.nodes.send_own_calls();
      lose(parcel());
      ++times;
    }
    pass(NodeCalls::own_calls_pause_ms);
  }
  EXPECT_GT(times, 100);
  pass(NodeCalls::own_calls_pause_ms);
  EXPECT_FALSE(side_.nodes.has_own_calls());
}

TEST_F(NodeCallsTest, own_calls_without_room_are_counted) {
  const auto owe = [&] {
    side_.nodes.repeat({.op = QuotaOp::end_part, .reservation = reservation_of(1)}, 1, 60'000);
  };
  for (size_t i = 0; i < NodeCalls::own_calls_max; ++i) owe();
  EXPECT_EQ(side_.nodes.dropped_count(), 0U);
  owe();
  owe();
  EXPECT_EQ(side_.nodes.dropped_count(), 2U);
  // Those that were sent get no answer, and others have taken their places.
  side_.nodes.send_own_calls();
  const std::vector<QuotaParcel*> sent = sender_.parcels;
  for (size_t i = 0; i < NodeCalls::own_calls_max; ++i) owe();
  EXPECT_EQ(side_.nodes.dropped_count(), 2U);
  for (QuotaParcel* const each : sent) lose(*each);
  EXPECT_EQ(side_.nodes.dropped_count(), 2U + NodeCalls::own_calls_max);
}

TEST_F(NodeCallsTest, a_binding_ends_where_it_was_used) {
  side_.nodes.end_binding(42);
  EXPECT_FALSE(side_.nodes.has_own_calls());
  add(task_.batch, {.op = QuotaOp::reserve, .binding = 42}, {subject_of(1)});
  side_.nodes.take_out(task_);
  const uint64_t there = parcel().batch.calls[0].binding;
  EXPECT_NE(there & wire::binding_of_node, 0U);
  EXPECT_EQ(task_.share.calls[0].binding, 42U);
  task_.batch.make_answers();
  side_.nodes.note_decided_here(task_);
  answer(parcel(), {{.code = QuotaCode::ok}});
  side_.nodes.end_binding(42);
  side_.nodes.send_own_calls();
  EXPECT_EQ(parcel().batch.calls[0].op, QuotaOp::end_binding);
  EXPECT_EQ(parcel().batch.calls[0].binding, there);
  answer(parcel(), {{.code = QuotaCode::ok}});
  side_.nodes.end_binding(42);
  EXPECT_FALSE(side_.nodes.has_own_calls());
}

// -------------------------------------------------------------------------- with QuotaTasks

TEST_F(NodeCallsTest, a_sessions_batch_is_answered_when_all_nodes_have) {
  api::QuotaBatch& batch = side_.tasks.take_batch();
  add(batch, {.op = QuotaOp::reserve}, {subject_of(1)});
  add(batch, {.op = QuotaOp::reserve}, {subject_of(0)});
  EXPECT_TRUE(side_.tasks.spans_shards(batch));  // the connection's next frames wait
  side_.tasks.ask(side_.ended_session, 7, batch);
  EXPECT_TRUE(side_.awaits(7));
  EXPECT_EQ(side_.asked.calls, std::vector{QuotaOp::reserve});
  parcel().batch.answers = {{.code = QuotaCode::ok, .reservation = reservation_of(1, 9)}};
  parcel().is_answered = true;
  side_.tasks.on_parcel(parcel());
  EXPECT_FALSE(side_.awaits(7));
  // The session has ended: nobody knows the reservations.
  EXPECT_EQ(side_.backend.cancelled,
            (std::vector{reservation_of(1, 9), FakeQuotas::reservation(0, 1)}));
}

TEST_F(NodeCallsTest, a_session_may_ask_another_node_alone) {
  api::QuotaBatch& batch = side_.tasks.take_batch();
  add(batch, {.op = QuotaOp::reserve}, {subject_of(1)});
  EXPECT_TRUE(side_.tasks.spans_shards(batch));
  side_.tasks.ask(side_.ended_session, 7, batch);
  EXPECT_TRUE(side_.awaits(7));
  EXPECT_TRUE(side_.asked.calls.empty());
  parcel().is_answered = false;
  side_.tasks.on_parcel(parcel());
  EXPECT_FALSE(side_.awaits(7));
}

TEST_F(NodeCallsTest, a_lane_that_ends_ends_no_binding) {
  api::QuotaBatch& batch = side_.tasks.take_batch();
  add(batch, {.op = QuotaOp::reserve, .binding = wire::binding_of_node | 5}, {subject_of(0)});
  batch.stays_here = true;
  side_.tasks.ask(side_.ended_session, 7, batch);
  EXPECT_EQ(side_.backend.cancelled.size(), 1U);
  EXPECT_FALSE(side_.tasks.has_own_calls());  // the client of the other node may still be there
}

TEST_F(NodeCallsTest, the_worker_sends_what_it_owes_other_nodes) {
  side_.tasks.cancel_undelivered(reservation_of(1, 5));
  EXPECT_TRUE(side_.tasks.has_work());
  side_.tasks.make_own_calls();
  EXPECT_FALSE(side_.tasks.has_work());
  ASSERT_EQ(sender_.parcels.size(), 1U);
  parcel().is_answered = true;
  parcel().batch.answers = {{.code = QuotaCode::ok}};
  side_.tasks.on_parcel(parcel());
  EXPECT_TRUE(side_.asked.calls.empty());
}

}  // namespace
}  // namespace sluice::server
