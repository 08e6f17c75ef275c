// Goal: another node is asked for its share of a batch, and the batch has what it says, or that it
//       says nothing.
// Method: one worker of two nodes with a store; parcels for the other one are kept, and the test
//         answers them.
#include "server/node_visits.hpp"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "server/visit_times.hpp"
#include "tests/unit/server/keeping_sender.hpp"
#include "tests/unit/server/task_side.hpp"
#include "wire/forward_quota.hpp"

namespace sluice::server {
namespace {

using api::Pass;
using api::QuotaCode;
using api::QuotaOp;
using peer::QuotaParcel;
using State = api::SpreadCall::State;

class NodeVisitsTest : public ::testing::Test {
 protected:
  explicit NodeVisitsTest(const quota::Options& with = {},
                          base::PeerFailure on_failure = base::PeerFailure::error)
      : side_(worker_group_, 0, fleet(on_failure), with) {
    side_.nodes.attach(sender_);
    side_.tasks.attach(sender_);
    side_.context.now.monotonic_ns = base::ns_per_s;
    put(here_, 100);
  }
  static peer::FleetOptions fleet(base::PeerFailure on_failure = base::PeerFailure::error) {
    peer::FleetOptions options{.on_failure = on_failure, .secret = "shared"};
    options.instances = {{"http://10.0.0.1:8080", "10.0.0.1", 8080},
                         {"http://10.0.0.2:8080", "10.0.0.2", 8080}};
    return options;
  }
  std::string subject_of(uint32_t node, const std::string& prefix = "model") {
    for (int number = 0;; ++number) {
      std::string name = prefix + std::to_string(number);
      if (side_.mailboxes.nodes().node_of_subject(name) == node) return name;
    }
  }
  api::QuotaBatch& batch_of(api::QuotaCall call, const std::vector<std::string_view>& subjects) {
    api::QuotaBatch& batch = side_.tasks.take_batch();
    call.subjects_count = static_cast<uint8_t>(subjects.size());
    batch.calls.push_back(call);
    batch.subjects.assign(subjects.begin(), subjects.end());
    return batch;
  }
  void put(std::string_view subject, uint64_t tokens) {
    api::QuotaBatch& batch = batch_of({.op = QuotaOp::put}, {subject});
    batch.new_quotas = {{.limits = {{.name = "tph",
                                     .metric = api::Metric::tokens,
                                     .kind = api::LimitKind::fixed,
                                     .amount = tokens,
                                     .period_ms = 3'600'000}},
                         .profile = {}}};
    side_.tasks.ask(side_.ended_session, 1, batch);
  }
  static api::QuotaCall reserving(uint64_t tokens) {
    return {.op = QuotaOp::reserve,
            .given_bits = api::given::input_tokens | api::given::output_tokens,
            .amounts = {.input_tokens = tokens}};
  }
  void reserve(uint64_t tokens) {
    side_.tasks.ask(side_.ended_session, 2, batch_of(reserving(tokens), {here_, there_}));
  }
  void consume(uint64_t tokens) {
    side_.tasks.ask(
        side_.ended_session, 2,
        batch_of({.op = QuotaOp::consume, .amounts = {.input_tokens = tokens}}, {here_, there_}));
  }
  uint64_t consumes(QuotaCode code) const {
    return side_.store->statistics().consumes[static_cast<size_t>(code)];
  }
  // The other node, whose call it is, asks for the part here.
  void reserve_from_there(uint64_t tokens) {
    reserve_from_there(tokens, side_.context.now.monotonic_ns);
  }
  void reserve_from_there(uint64_t tokens, int64_t arrival_ns) {
    api::QuotaBatch& batch = side_.tasks.take_node_batch();
    batch.calls.push_back(reserving(tokens));
    batch.calls[0].subjects_count = 2;
    batch.subjects = {there_, here_};
    batch.pass = Pass::ask;
    batch.arrival = {.ns = arrival_ns, .number = uint64_t{1} << 54};
    batch.visit.number = 1;
    batch.visit.home = 1;
    batch.visit.places = {0};
    batch.visit.subject_bits = {2};
    api::SpreadCall& part = batch.spread.emplace_back();
    part.holds.fill(api::SpreadCall::no_hold);
    make_relative(part, side_.context.now);
    batch.answers.resize(1);
    side_.tasks.ask(side_.ended_session, 4, batch);
  }
  // One that does not fit here, and may wait.
  void reserve_and_wait() {
    reserve(90);
    answer(parcel());
    answer(parcel());
    const api::QuotaCall call{.op = QuotaOp::reserve,
                              .flags = api::quota_flag::may_wait,
                              .given_bits = api::given::input_tokens | api::given::output_tokens,
                              .ticket = side_.context.waits.take(0, 0, session::WaitsFor::quota),
                              .amounts = {.input_tokens = 20}};
    side_.tasks.ask(side_.ended_session, 3, batch_of(call, {here_, there_}));
  }
  // In one frame: of the subject here, and each of these.
  void reserve_each(const std::vector<std::string_view>& others) {
    api::QuotaBatch& batch = side_.tasks.take_batch();
    for (const std::string_view other : others) {
      batch.calls.push_back({.op = QuotaOp::reserve,
                             .given_bits = api::given::output_tokens,
                             .subjects_count = 2,
                             .first_subject = static_cast<uint32_t>(batch.subjects.size())});
      batch.subjects.insert(batch.subjects.end(), {here_, other});
    }
    side_.tasks.ask(side_.ended_session, 2, batch);
  }
  void reserve_often(uint32_t times, std::string_view other) {
    reserve_each(std::vector<std::string_view>(times, other));
  }
  void extend(uint64_t reservation) {
    const api::QuotaCall call{
        .op = QuotaOp::extend, .lifetime_ms = 90'000, .reservation = reservation};
    side_.tasks.ask(side_.ended_session, 3, batch_of(call, {}));
  }
  uint64_t reserves_answered(QuotaCode code) const {
    return side_.store->statistics().reserves[static_cast<size_t>(code)];
  }
  uint64_t used() {
    api::QuotaBatch batch;
    batch.calls.push_back({.op = QuotaOp::usage, .subjects_count = 1});
    batch.subjects.push_back(here_);
    batch.make_answers();
    side_.store->decide(batch, side_.context.now, 0);
    return batch.limits.at(0).used;
  }
  uint32_t lifetime_of(uint64_t reservation) {
    api::QuotaBatch batch;
    batch.calls.push_back({.op = QuotaOp::show, .reservation = reservation});
    batch.make_answers();
    side_.store->decide(batch, side_.context.now, 0);
    return batch.holders.at(0).lifetime_ms;
  }
  QuotaParcel& parcel() { return *sender_.parcels.back(); }
  // The other node's answer: it holds the parts, but for so many of the first ones, which do not
  // fit there.
  void answer(QuotaParcel& parcel, size_t unfit_count = 0) {
    parcel.is_answered = true;
    parcel.batch.visit.is_known = true;
    for (size_t call = 0; call < parcel.batch.spread.size(); ++call) {
      api::SpreadCall& part = parcel.batch.spread[call];
      const bool fits = call >= unfit_count;
      part.has_quota = part.limits_anything = true;
      part.holds.fill(fits ? 5U : api::SpreadCall::no_hold);
      if (!fits) part.code = QuotaCode::tpm_exceeded;
    }
    side_.tasks.on_parcel(parcel);
  }
  void answer_extension(QuotaParcel& parcel, QuotaCode code) {
    ASSERT_EQ(parcel.batch.calls.at(0).op, QuotaOp::extend_part);
    parcel.is_answered = true;
    parcel.batch.answers = {{.code = code}};
    side_.tasks.on_parcel(parcel);
  }
  void lose(QuotaParcel& parcel) {
    parcel.is_answered = false;
    side_.tasks.on_parcel(parcel);
  }

  WorkerGroup worker_group_{{.shards = 1}};
  KeepingSender sender_;
  TaskSide side_;
  const std::string here_ = subject_of(0);
  const std::string there_ = subject_of(1);
};

TEST_F(NodeVisitsTest, a_call_that_fits_everywhere_is_charged_after_the_other_node) {
  reserve(30);
  ASSERT_EQ(sender_.parcels.size(), 1U);
  const api::QuotaBatch& asked = parcel().batch;
  EXPECT_EQ(asked.pass, Pass::ask);
  EXPECT_EQ(asked.subjects, (std::vector<std::string_view>{here_, there_}));
  EXPECT_EQ(asked.visit.subject_bits, std::vector<uint8_t>{2});
  EXPECT_NE(asked.spread[0].reservation, 0U);  // the home has made its part
  EXPECT_EQ(asked.calls[0].lifetime_ms, asked.spread[0].lifetime_ms);
  EXPECT_EQ(parcel().timeout_ms, 1'500);  // three quarters of the time-out
  answer(parcel());
  ASSERT_EQ(sender_.parcels.size(), 2U);
  EXPECT_EQ(parcel().batch.pass, Pass::apply);
  EXPECT_EQ(parcel().batch.spread[0].state, State::admitted);
  EXPECT_EQ(parcel().batch.visit.number, 1U);
  EXPECT_TRUE(side_.awaits(2));
  answer(parcel());
  EXPECT_FALSE(side_.awaits(2));
  EXPECT_EQ(used(), 30U);
  EXPECT_TRUE(side_.tasks.is_idle_for_nodes());
}

TEST_F(NodeVisitsTest, the_worker_that_was_asked_has_the_verdicts_on_any_of_its_calls) {
  route::NodeMap& nodes = side_.mailboxes.nodes();
  nodes.set_shards(1, 3, 0);
  std::string other = subject_of(1, "other");
  while (nodes.target_of_subject(1, other) == nodes.target_of_subject(1, there_)) {
    other = subject_of(1, other);
  }
  reserve_each({there_, other});
  const route::TargetId asked = parcel().target;
  answer(parcel(), 1);
  EXPECT_EQ(parcel().batch.pass, Pass::apply);
  EXPECT_EQ(parcel().batch.visit.places, std::vector<uint32_t>{1});
  EXPECT_EQ(parcel().target, asked);
}

TEST_F(NodeVisitsTest, a_name_that_is_too_long_is_refused_before_any_node_is_asked) {
  const std::string tag = "{" + there_ + "}";
  const std::string too_long = tag + std::string(side_.options.key_bytes_max, 'x');
  side_.tasks.ask(side_.ended_session, 2, batch_of(reserving(30), {here_, too_long}));
  EXPECT_TRUE(sender_.parcels.empty());
  EXPECT_FALSE(side_.awaits(2));
  EXPECT_EQ(reserves_answered(QuotaCode::invalid_subject), 1U);
  reserve_each({too_long, there_});
  ASSERT_EQ(sender_.parcels.size(), 1U);
  EXPECT_EQ(parcel().batch.visit.places, std::vector<uint32_t>{1});
  const std::string longest = tag + std::string(side_.options.key_bytes_max - tag.size(), 'x');
  reserve_each({longest});
  EXPECT_EQ(sender_.parcels.size(), 2U);
}

// Names may be so long that eight of them fit into no frame.
class NodeVisitsThatDeny : public NodeVisitsTest {
 protected:
  NodeVisitsThatDeny()
      : NodeVisitsTest({.subjects_max = 100, .reservations_max = 100, .waiters_max = 100},
                       base::PeerFailure::closed) {}
};

TEST_F(NodeVisitsThatDeny, a_call_that_a_node_does_not_answer_is_denied) {
  reserve(30);
  lose(parcel());
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(reserves_answered(QuotaCode::failed_closed), 1U);
}

TEST_F(NodeVisitsThatDeny, usage_whose_verdict_is_not_confirmed_is_denied) {
  consume(30);
  parcel().batch.spread.at(0).awaits_others = true;
  answer(parcel());
  ASSERT_EQ(parcel().batch.pass, Pass::apply);
  lose(parcel());
  answer(parcel());
  ASSERT_EQ(parcel().batch.pass, Pass::ask);
  parcel().batch.spread.at(0).awaits_others = false;
  answer(parcel());
  answer(parcel());
  EXPECT_EQ(consumes(QuotaCode::failed_closed), 1U);
}

class NodeVisitsOfLongNames : public NodeVisitsTest {
 protected:
  NodeVisitsOfLongNames()
      : NodeVisitsTest({.subjects_max = 100,
                        .reservations_max = 100,
                        .waiters_max = 100,
                        .name_bytes_max = limits::key_bytes_max}) {}
  // So many bytes each, of the other node.
  std::vector<std::string> names_of(size_t bytes) const {
    std::vector<std::string> names(4, "{" + there_ + "}");
    for (size_t at = 0; at < names.size(); ++at) {
      names[at].resize(bytes, static_cast<char>('a' + at));
    }
    return names;
  }
  std::vector<std::string_view> with_here(const std::vector<std::string>& names) const {
    std::vector<std::string_view> all{here_};
    all.insert(all.end(), names.begin(), names.end());
    return all;
  }

  const std::vector<std::string> fitting_ = names_of(65'400);
  const std::vector<std::string> too_long_ = names_of(65'460);
};

TEST_F(NodeVisitsOfLongNames, a_call_that_fits_into_a_frame_visits_the_node) {
  side_.tasks.ask(side_.ended_session, 2, batch_of(reserving(30), with_here(fitting_)));
  ASSERT_EQ(sender_.parcels.size(), 1U);
  const auto frame = wire::encode_forward_quota(1, 1, parcel().batch);
  EXPECT_LE(std::span(frame).size_bytes(), limits::frame_bytes_max);
  EXPECT_GT(std::span(frame).size_bytes(), limits::frame_bytes_max - 1'024);
}

TEST_F(NodeVisitsOfLongNames, a_call_that_fits_into_no_frame_is_answered_without_the_node) {
  side_.tasks.ask(side_.ended_session, 2, batch_of(reserving(30), with_here(too_long_)));
  EXPECT_TRUE(sender_.parcels.empty()) << "the other node would end the link";
  EXPECT_FALSE(side_.awaits(2));
  EXPECT_EQ(reserves_answered(QuotaCode::owner_unreachable), 1U);
  side_.tasks.make_own_calls();
  EXPECT_TRUE(sender_.parcels.empty()) << "it has no part to end";
  EXPECT_TRUE(side_.tasks.is_idle_for_nodes());
  reserve(100);  // nothing is held here any more
  ASSERT_EQ(sender_.parcels.size(), 1U);
  EXPECT_EQ(parcel().batch.spread.at(0).code, QuotaCode::ok);
}

TEST_F(NodeVisitsOfLongNames, those_beside_it_visit_the_node_without_it) {
  api::QuotaBatch& batch = batch_of(reserving(30), with_here(too_long_));
  batch.calls.push_back(batch.calls[0]);
  batch.calls[1].subjects_count = 2;
  batch.calls[1].first_subject = static_cast<uint32_t>(batch.subjects.size());
  batch.subjects.insert(batch.subjects.end(), {here_, there_});
  side_.tasks.ask(side_.ended_session, 2, batch);
  ASSERT_EQ(sender_.parcels.size(), 1U);
  EXPECT_EQ(parcel().batch.visit.places, std::vector<uint32_t>{1});
  EXPECT_EQ(reserves_answered(QuotaCode::owner_unreachable), 1U);
}

TEST_F(NodeVisitsTest, a_call_that_does_not_fit_there_charges_nothing) {
  reserve(30);
  answer(parcel(), 1);
  EXPECT_EQ(sender_.parcels.size(), 1U);  // nothing is held there
  EXPECT_FALSE(side_.awaits(2));
  EXPECT_EQ(used(), 0U);
}

TEST_F(NodeVisitsTest, a_call_that_does_not_fit_here_is_dropped_there) {
  reserve(90);
  answer(parcel());
  answer(parcel());
  reserve(20);
  EXPECT_EQ(parcel().batch.pass, Pass::ask);
  EXPECT_NE(parcel().batch.spread[0].code, QuotaCode::ok);
  answer(parcel(), 1);
  EXPECT_FALSE(side_.awaits(2));
  EXPECT_EQ(used(), 90U);
}

TEST_F(NodeVisitsTest,
       a_node_that_is_not_there_leaves_nothing_charged_and_is_asked_to_end_its_part) {
  reserve(30);
  const uint64_t reservation = parcel().batch.spread[0].reservation;
  lose(parcel());
  EXPECT_FALSE(side_.awaits(2));
  EXPECT_EQ(used(), 0U);
  side_.tasks.make_own_calls();
  ASSERT_EQ(sender_.parcels.size(), 2U);
  ASSERT_EQ(parcel().batch.calls.size(), 1U);
  EXPECT_EQ(parcel().batch.calls[0].op, QuotaOp::end_part);
  EXPECT_EQ(parcel().batch.calls[0].flags, api::quota_flag::cancels);
  EXPECT_EQ(parcel().batch.calls[0].reservation, reservation);
}

TEST_F(NodeVisitsTest, a_verdict_that_is_not_confirmed_ends_the_call) {
  reserve(30);
  answer(parcel());
  lose(parcel());
  side_.tasks.make_own_calls();
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(parcel().batch.calls.at(0).op, QuotaOp::end_part);
}

// Nodes that have been up for different times agree on the order of calls all the same.
TEST_F(NodeVisitsTest, a_call_arrives_by_the_wall_clock_at_the_start) {
  reserve(30);
  EXPECT_EQ(parcel().batch.arrival.ns, TaskSide::wall_ns + side_.context.now.monotonic_ns);
}

// Clocks of machines differ: whichever shows the later time is followed, by calls and by answers.
TEST_F(NodeVisitsTest, a_call_arrives_after_those_that_another_node_has_asked_for) {
  reserve(30);
  const api::Arrival before = parcel().batch.arrival;
  reserve_from_there(1, before.ns + 10 * base::ns_per_s);
  reserve(30);
  EXPECT_EQ(parcel().batch.arrival.ns, before.ns + 10 * base::ns_per_s);
  reserve_from_there(1, before.ns);  // one that is behind is not
  reserve(30);
  EXPECT_EQ(parcel().batch.arrival.ns, before.ns + 10 * base::ns_per_s);
}

TEST_F(NodeVisitsTest, a_call_arrives_after_the_time_that_another_node_has_answered_with) {
  reserve(30);
  const int64_t before_ns = parcel().batch.arrival.ns;
  parcel().batch.visit.clock_ns = before_ns + 10 * base::ns_per_s;
  answer(parcel());
  consume(1);
  EXPECT_EQ(parcel().batch.arrival.ns, before_ns + 10 * base::ns_per_s);
}

// The other node may have charged for good what nothing can be found by: the next round asks for
// the part once more.
TEST_F(NodeVisitsTest, usage_without_an_id_is_not_charged_beside_a_verdict_that_is_not_confirmed) {
  consume(30);
  parcel().batch.spread.at(0).awaits_others = true;
  answer(parcel());
  ASSERT_EQ(parcel().batch.pass, Pass::apply);
  lose(parcel());
  ASSERT_EQ(parcel().batch.pass, Pass::await);
  answer(parcel());
  ASSERT_EQ(parcel().batch.pass, Pass::ask);
  parcel().batch.spread.at(0).awaits_others = false;
  answer(parcel());
  EXPECT_EQ(parcel().batch.spread.at(0).state, State::refused);
  answer(parcel());
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(consumes(QuotaCode::owner_unreachable), 1U);
}

TEST_F(NodeVisitsTest, only_usage_without_an_id_fails_by_a_refusal_that_is_not_confirmed) {
  NodeVisits visits(side_.mailboxes, side_.nodes, fleet());
  visits.attach(sender_);
  const auto fails = [&](QuotaOp op, std::string_view id) {
    QuotaTask task;
    task.batch.calls = {{.op = op, .subjects_count = 2, .client_id = id}};
    task.batch.subjects = {here_, there_};
    task.batch.make_answers();
    task.batch.pass = Pass::apply;
    task.batch.undecided = {0};
    task.batch.round_size = 1;
    task.batch.spread.resize(1);
    task.batch.spread[0].state = State::refused;
    task.batch.spread[0].shards = {0, api::stop_of_node(1)};
    task.batch.spread[0].holds[1] = api::SpreadCall::without_hold;
    task.shard = api::stop_of_node(1);
    visits.visit(task, side_.context.now);
    parcel().is_answered = false;
    visits.on_returned(parcel(), side_.context.now);
    return !task.failed.empty();
  };
  EXPECT_TRUE(fails(QuotaOp::consume, ""));
  EXPECT_TRUE(fails(QuotaOp::record, ""));
  EXPECT_FALSE(fails(QuotaOp::consume, "id"));
  EXPECT_FALSE(fails(QuotaOp::reserve, ""));
}

TEST_F(NodeVisitsTest, a_verdict_for_what_is_not_held_any_more_ends_the_call) {
  reserve(30);
  answer(parcel());
  parcel().is_answered = true;
  parcel().batch.visit.is_known = false;
  side_.tasks.on_parcel(parcel());
  side_.tasks.make_own_calls();
  EXPECT_EQ(used(), 0U);
}

TEST_F(NodeVisitsTest, a_call_waits_at_every_node_until_its_client_has_left) {
  reserve_and_wait();
  ASSERT_EQ(parcel().batch.pass, Pass::ask);
  EXPECT_TRUE(api::may_wait(parcel().batch.calls.at(0)));
  EXPECT_NE(parcel().batch.spread.at(0).waiters[0], api::no_waiter);
  const api::Arrival arrival = parcel().batch.arrival;
  parcel().batch.spread[0].waiters[1] = 0;
  answer(parcel());
  ASSERT_EQ(parcel().batch.pass, Pass::apply);
  EXPECT_EQ(parcel().batch.spread.at(0).state, State::queued);
  answer(parcel());  // the session has ended: nobody waits any more
  side_.tasks.make_own_calls();
  side_.tasks.make_own_calls();
  ASSERT_EQ(parcel().batch.calls.size(), 1U);
  EXPECT_EQ(parcel().batch.calls[0].op, QuotaOp::leave_node);
  EXPECT_EQ(api::arrival_that_leaves(parcel().batch.calls[0]), arrival);
  EXPECT_EQ(side_.store->waiters_count(), 0U);
}

TEST_F(NodeVisitsTest, a_call_for_which_a_node_has_no_place_does_not_wait) {
  reserve_and_wait();
  parcel().batch.spread.at(0).no_waiter_code = QuotaCode::waiters_full;
  answer(parcel(), false);
  const auto& outcomes = side_.store->statistics().reserves;
  EXPECT_EQ(outcomes[static_cast<size_t>(QuotaCode::waiters_full)], 1U);
  EXPECT_EQ(side_.store->waiters_count(), 0U);
}

TEST_F(NodeVisitsTest, a_node_that_takes_no_place_and_says_nothing_has_none) {
  reserve_and_wait();
  answer(parcel(), 1);
  const auto& outcomes = side_.store->statistics().reserves;
  EXPECT_EQ(outcomes[static_cast<size_t>(QuotaCode::waiters_full)], 1U);
  EXPECT_EQ(side_.store->waiters_count(), 0U);
}

TEST_F(NodeVisitsTest, only_a_call_that_does_not_wait_yet_may_be_a_repeat) {
  NodeVisits visits(side_.mailboxes, side_.nodes, fleet());
  visits.attach(sender_);
  for (const bool is_try : {false, true}) {
    QuotaTask task;
    task.shard = api::stop_of_node(1);
    task.batch.pass = Pass::ask;
    task.batch.calls = {{.op = QuotaOp::consume, .subjects_count = 2}};
    task.batch.subjects = {here_, there_};
    task.batch.answers.resize(1);
    task.batch.undecided = {0};
    task.batch.round_size = 1;
    task.batch.spread.push_back({.shards = {0, api::stop_of_node(1)}, .is_try = is_try});
    visits.visit(task, side_.context.now);
    parcel().is_answered = true;
    parcel().batch.spread.at(0).is_repeat = true;
    parcel().batch.answers.at(0).code = QuotaCode::unlimited;
    visits.on_returned(parcel(), side_.context.now);
    EXPECT_EQ(task.batch.spread[0].is_repeat, !is_try);
    EXPECT_EQ(task.batch.answers[0].code, is_try ? QuotaCode::none : QuotaCode::unlimited);
  }
}

TEST_F(NodeVisitsTest, ends_are_repeated_until_the_node_has_them) {
  reserve(30);
  const uint64_t reservation = parcel().batch.spread[0].reservation;
  answer(parcel());
  answer(parcel());
  const api::QuotaCall settle{.op = QuotaOp::settle,
                              .given_bits = api::given::input_tokens,
                              .amounts = {.input_tokens = 4},
                              .reservation = reservation};
  side_.tasks.ask(side_.ended_session, 3, batch_of(settle, {}));
  ASSERT_EQ(parcel().batch.calls.at(0).op, QuotaOp::end_part);
  EXPECT_EQ(parcel().batch.calls[0].amounts.input_tokens, 4U);
  EXPECT_EQ(used(), 4U);
  EXPECT_TRUE(side_.awaits(3));
  const size_t sent = sender_.parcels.size();
  lose(parcel());
  EXPECT_FALSE(side_.awaits(3));
  side_.tasks.make_own_calls();
  ASSERT_EQ(sender_.parcels.size(), sent + 1);
  EXPECT_EQ(parcel().batch.calls.at(0).op, QuotaOp::end_part);
}

TEST_F(NodeVisitsTest, an_extension_reaches_the_part_first) {
  reserve(30);
  const uint64_t reservation = parcel().batch.spread[0].reservation;
  answer(parcel());
  answer(parcel());
  extend(reservation);
  EXPECT_EQ(parcel().batch.calls.at(0).lifetime_ms, 90'000U);
  EXPECT_LT(lifetime_of(reservation), 90'000U);
  answer_extension(parcel(), QuotaCode::ok);
  EXPECT_FALSE(side_.awaits(3));
  EXPECT_EQ(lifetime_of(reservation), 90'000U);
}

TEST_F(NodeVisitsTest, an_extension_that_misses_the_part_is_none) {
  reserve(30);
  const uint64_t reservation = parcel().batch.spread[0].reservation;
  answer(parcel());
  answer(parcel());
  const uint32_t before_ms = lifetime_of(reservation);
  extend(reservation);
  lose(parcel());
  EXPECT_FALSE(side_.awaits(3));
  EXPECT_EQ(lifetime_of(reservation), before_ms);
  extend(reservation);
  answer_extension(parcel(), QuotaCode::unknown_reservation);
  EXPECT_FALSE(side_.awaits(3));
  EXPECT_EQ(lifetime_of(reservation), before_ms);
}

TEST_F(NodeVisitsTest, what_another_node_does_not_ask_for_again_has_no_claim) {
  reserve(80);
  reserve_from_there(30);  // does not fit beside what is held
  EXPECT_TRUE(side_.store->has_claims());
  lose(parcel());
  EXPECT_TRUE(side_.store->has_claims());
  side_.context.now.monotonic_ns += 2 * fleet().timeout_ms * base::ns_per_ms;
  side_.tasks.make_own_calls();
  EXPECT_FALSE(side_.store->has_claims());
}

TEST(VisitTimes, are_from_now_on_between_nodes) {
  const base::Now here{.monotonic_ns = 1'000, .wall_ns = 0};
  const base::Now there{.monotonic_ns = 50, .wall_ns = 0};
  for (const auto& [at_ns, expected_ns] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 0}, {base::never_ns, base::never_ns}, {1'200, 250}, {900, 50}}) {
    EXPECT_EQ(absolute_ns(relative_ns(at_ns, here), there), expected_ns);
  }
}

TEST_F(NodeVisitsTest, a_round_has_as_many_calls_as_a_node_takes_at_a_time) {
  reserve_often(300, there_);
  EXPECT_EQ(parcel().batch.calls.size(), 256U);
  answer(parcel());
  EXPECT_EQ(parcel().batch.calls.size(), 256U);  // the verdicts
  EXPECT_EQ(parcel().batch.pass, Pass::apply);
  answer(parcel());
  EXPECT_EQ(parcel().batch.calls.size(), 44U);
  EXPECT_EQ(parcel().batch.pass, Pass::ask);
}

TEST_F(NodeVisitsTest, a_round_has_as_many_calls_as_fit_into_a_frame) {
  const std::string long_name = subject_of(1, std::string(1'000, 'm'));
  reserve_often(256, long_name);
  EXPECT_GT(parcel().batch.calls.size(), 100U);
  EXPECT_LT(parcel().batch.calls.size(), 256U);
  const wire::FrameWords words = wire::encode_forward_quota(1, 1, parcel().batch);
  EXPECT_LE(std::span(words).size_bytes(), limits::frame_bytes_max);
}

}  // namespace
}  // namespace sluice::server
