// Goal: a batch visits the shards in the order of its passes, and the verdict of a call follows
//       from its parts with the precedence that one shard gives.
// Method: batches whose shards are this test: it writes what they would report.
#include "quota/spread_round.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::Pass;
using api::QuotaBatch;
using api::QuotaCode;
using api::QuotaOp;
using api::SpreadCall;
using State = SpreadCall::State;

constexpr uint32_t shards_count = 4;

// The name's digit is its shard.
api::ShardId shard_of(std::string_view name) {
  return static_cast<api::ShardId>(name.back() - '0');
}

constexpr auto find_shards = [](auto names, auto stops) {
  std::ranges::transform(names, stops.begin(), shard_of);
};

class SpreadRoundTest : public testing::Test {
 protected:
  void start(QuotaOp op, const std::vector<std::vector<const char*>>& calls) {
    for (const auto& names : calls) {
      api::QuotaCall call = asking_tokens(1);
      call.op = op;
      call.subjects_count = static_cast<uint8_t>(names.size());
      call.first_subject = static_cast<uint32_t>(batch_.subjects.size());
      batch_.calls.push_back(call);
      for (const char* name : names) batch_.subjects.emplace_back(name);
    }
    batch_.make_answers();
    spread(batch_, find_shards);
  }

  // Visits the shards until the batch is decided; each holds what it is asked for.
  using Stop = std::pair<Pass, uint32_t>;
  std::vector<Stop> visit_all() {
    std::vector<Stop> stops;
    uint32_t at = next_stop(batch_, 0, shards_count);
    while (at < shards_count && stops.size() < 50) {
      stops.emplace_back(batch_.pass, at);
      visit(static_cast<api::ShardId>(at));
      at = next_stop(batch_, after_stop(batch_, at), shards_count);
    }
    return stops;
  }
  void visit(api::ShardId shard) {
    for (const uint32_t index : batch_.round()) {
      SpreadCall& call = batch_.spread[index];
      const uint8_t place = first_place(batch_.calls[index], call, shard);
      if (place == batch_.calls[index].subjects_count || call.awaits()) continue;
      if (batch_.pass == Pass::ask && call.state == State::undecided) call.holds[place] = 7;
      if (applies_verdict(batch_.pass, batch_.calls[index], call, shard)) {
        call.holds[place] = SpreadCall::no_hold;
      }
    }
    const bool concludes =
        batch_.pass == Pass::conclude || (batch_.pass == Pass::ask && batch_.is_last_asked);
    if (!concludes) return;
    conclude(batch_, 0, statistics_);
    visit(shard);  // it applies the verdicts to its own parts
  }

  QuotaCode verdict_of(const SpreadCall& parts) {
    batch_ = {};
    start(QuotaOp::reserve, {{"a0", "b1"}});
    const auto shards = batch_.spread[0].shards;
    batch_.spread[0] = parts;
    batch_.spread[0].shards = shards;
    conclude(batch_, 0, statistics_);
    return batch_.answers[0].code;
  }

  QuotaBatch batch_;
  Statistics statistics_;
};

TEST_F(SpreadRoundTest, asks_in_ascending_order_and_opens_at_home_last) {
  start(QuotaOp::reserve, {{"a2", "b0", "c1"}});
  EXPECT_EQ(visit_all(), (std::vector<Stop>{{Pass::ask, 0},
                                            {Pass::ask, 1},
                                            {Pass::ask, 2},
                                            {Pass::apply, 0},
                                            {Pass::apply, 1},
                                            {Pass::open, 2}}));
  EXPECT_EQ(batch_.answers[0].code, QuotaCode::unknown_subject_allowed);
}

TEST_F(SpreadRoundTest, the_last_shard_that_is_asked_applies_the_verdicts_at_once) {
  start(QuotaOp::reserve, {{"a0", "b3"}, {"c0"}});
  EXPECT_EQ(visit_all(), (std::vector<Stop>{{Pass::ask, 0}, {Pass::ask, 3}, {Pass::open, 0}}));
}

// Other nodes come behind the shards, in the order of the list. Only the home concludes.
TEST_F(SpreadRoundTest, visits_other_nodes_behind_the_shards) {
  const Stops stops{.shards_count = 4, .nodes_count = 3};
  start(QuotaOp::reserve, {{"a2", "b0", "c1"}});
  const api::ShardId node = api::stop_of_node(2);
  batch_.spread[0].shards = {2, node, 1};
  std::vector<Stop> visited;
  for (uint32_t at = next_stop(batch_, 0, stops); at < stops.end();
       at = next_stop(batch_, after_stop(batch_, at), stops)) {
    visited.emplace_back(batch_.pass, at);
    visit(static_cast<api::ShardId>(at));
  }
  EXPECT_EQ(visited, (std::vector<Stop>{{Pass::ask, 1},
                                        {Pass::ask, 2},
                                        {Pass::ask, node},
                                        {Pass::conclude, 2},
                                        {Pass::apply, 1},
                                        {Pass::apply, node},
                                        {Pass::open, 2}}));
  EXPECT_EQ(batch_.answers[0].code, QuotaCode::unknown_subject_allowed);
}

TEST_F(SpreadRoundTest, a_visit_stops_at_shards_alone_and_stays_in_its_pass) {
  start(QuotaOp::reserve, {{"a2", "b0", "c1"}});
  const api::ShardId home = api::stop_of_node(1);
  batch_.spread[0].shards = {home, 3, 1};
  EXPECT_EQ(next_stop_of_visit(batch_, 0, shards_count), 1U);
  EXPECT_EQ(next_stop_of_visit(batch_, 2, shards_count), 3U);
  EXPECT_EQ(next_stop_of_visit(batch_, 4, shards_count), shards_count);
  EXPECT_EQ(batch_.pass, Pass::ask);
}

TEST_F(SpreadRoundTest, looks_first_for_output_tokens_that_a_call_leaves_out) {
  api::QuotaCall call = asking_tokens(1);
  call.op = QuotaOp::check;
  call.given_bits = 0;
  call.subjects_count = 2;
  batch_.calls = {call};
  batch_.subjects = {"a1", "b0"};
  batch_.make_answers();
  spread(batch_, find_shards);
  EXPECT_EQ(next_stop(batch_, 0, shards_count), 0U);
  EXPECT_EQ(batch_.pass, Pass::look);
  EXPECT_EQ(next_stop(batch_, 1, shards_count), 1U);
  EXPECT_EQ(next_stop(batch_, 2, shards_count), 0U);
  EXPECT_EQ(batch_.pass, Pass::ask);
}

TEST_F(SpreadRoundTest, calls_without_valid_subjects_are_decided_without_a_shard) {
  start(QuotaOp::record,
        {{"a0", "b1"}, {}, {"a0", "b0", "c0", "d0", "e0", "f0", "g0", "h0", "i0"}});
  visit_all();
  EXPECT_EQ(batch_.answers[1].code, QuotaCode::invalid_subject);
  EXPECT_EQ(batch_.answers[2].code, QuotaCode::invalid_subject);
  EXPECT_EQ(batch_.answers[2].retry_after_ms, api::retry_never);
}

TEST_F(SpreadRoundTest, a_call_that_awaits_another_goes_there_with_nothing_held) {
  start(QuotaOp::reserve, {{"a0", "b2"}, {"c1"}, {"c1", "b2"}, {"d3"}});
  ASSERT_EQ(next_stop(batch_, 0, shards_count), 0U);
  visit(0);
  batch_.spread[0].awaits_others = true;  // as shard 2 reports
  batch_.spread[0].awaits_at = 2;
  visit(1);
  visit(3);
  batch_.pass = Pass::conclude;
  visit(0);
  EXPECT_EQ(batch_.spread[1].state, State::admitted);
  EXPECT_EQ(batch_.spread[3].state, State::admitted);
  EXPECT_EQ(batch_.spread[0].state, State::undecided);
  EXPECT_EQ(batch_.spread[2].state, State::undecided);  // shares a subject with the first
  uint32_t at = next_stop(batch_, 0, shards_count);
  while (batch_.pass != Pass::await) {
    visit(static_cast<api::ShardId>(at));
    at = next_stop(batch_, at + 1, shards_count);
  }
  EXPECT_EQ(at, 2U);
  EXPECT_EQ(batch_.undecided, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(next_stop(batch_, 3, shards_count), 0U);
  EXPECT_EQ(batch_.pass, Pass::ask);
  EXPECT_FALSE(batch_.spread[0].awaits());
  EXPECT_EQ(batch_.spread[1].state, State::done);
}

// Else two batches could wait for each other: the second call for what the first one is ahead of.
TEST_F(SpreadRoundTest, a_batch_goes_on_with_its_first_call_while_another_awaits_a_verdict) {
  start(QuotaOp::reserve, {{"a0", "b1"}, {"c0"}});
  batch_.spread[0].awaits_own = true;
  batch_.spread[1].awaits_others = true;
  batch_.pass = Pass::conclude;
  visit(0);
  EXPECT_EQ(next_stop(batch_, 0, shards_count), 0U);
  EXPECT_EQ(batch_.pass, Pass::ask);
}

TEST_F(SpreadRoundTest, a_round_has_twice_as_many_calls_as_the_last_one_decided) {
  start(QuotaOp::reserve, std::vector<std::vector<const char*>>(500, {"a0", "b1"}));
  std::vector<uint32_t> sizes;
  for (const size_t decided : {1, 100, 0, 250}) {
    for (size_t at = decided; at < batch_.round_size; ++at) {
      batch_.spread[batch_.undecided[at]].awaits_own = true;
    }
    batch_.pass = Pass::conclude;
    visit(0);
    batch_.pass = Pass::open;
    next_stop(batch_, shards_count, shards_count);
    sizes.push_back(batch_.round_size);
  }
  EXPECT_EQ(sizes, (std::vector<uint32_t>{32, 64, 32, 64}));
  EXPECT_EQ(batch_.calls_repeated, 32U + 64 + 32 + 64);
  EXPECT_EQ(batch_.undecided.front(), 65U);
}

TEST_F(SpreadRoundTest, problems_of_subjects_come_before_limits_and_these_before_full_tables) {
  EXPECT_EQ(verdict_of({}), QuotaCode::unknown_subject_allowed);
  EXPECT_EQ(verdict_of({.has_quota = true}), QuotaCode::unlimited);
  EXPECT_EQ(verdict_of({.has_quota = true, .limits_anything = true}), QuotaCode::ok);
  SpreadCall parts{.has_quota = true, .reservations_full = true};
  EXPECT_EQ(verdict_of(parts), QuotaCode::reservations_full);
  parts.code = QuotaCode::tpm_exceeded;
  parts.fits_at_ns = 5 * base::ns_per_s;
  EXPECT_EQ(verdict_of(parts), QuotaCode::tpm_exceeded);
  EXPECT_EQ(batch_.answers[0].retry_after_ms, 5'000);
  parts.problem = QuotaCode::unknown_subject;
  EXPECT_EQ(verdict_of(parts), QuotaCode::unknown_subject);
  EXPECT_EQ(batch_.answers[0].retry_after_ms, api::retry_never);
  EXPECT_EQ(statistics_.reserves[static_cast<size_t>(QuotaCode::tpm_exceeded)], 1U);
}

// The home knows the client's id; another shard denies a subject.
TEST_F(SpreadRoundTest, a_refused_repeat_shows_nothing_of_the_first_call) {
  start(QuotaOp::reserve, {{"a0", "b1"}});
  batch_.spread[0].is_repeat = true;
  batch_.spread[0].problem = QuotaCode::unknown_subject;
  batch_.answers[0] = {.code = QuotaCode::ok,
                       .state = api::ReservationState::cancelled,
                       .reservation = 12,
                       .lifetime_ms = 93};
  conclude(batch_, 0, statistics_);
  EXPECT_EQ(batch_.answers[0].code, QuotaCode::unknown_subject);
  EXPECT_EQ(batch_.answers[0].retry_after_ms, api::retry_never);
  EXPECT_EQ(batch_.answers[0].state, api::ReservationState::none);
  EXPECT_EQ(batch_.answers[0].reservation, 0U);
  EXPECT_EQ(batch_.answers[0].lifetime_ms, 0U);
}

TEST_F(SpreadRoundTest, reports_are_merged_by_call_and_subject) {
  start(QuotaOp::check, {{"a0", "b1"}, {"c1", "d0"}});
  const auto report = [&](uint32_t call, uint8_t subject) {
    batch_.part_reports.push_back({.call = call, .limit = {.subject = subject, .violated = true}});
  };
  for (SpreadCall& call : batch_.spread) call.code = QuotaCode::tpm_exceeded;
  report(1, 1);
  report(0, 0);
  report(1, 0);
  report(0, 1);
  visit_all();
  ASSERT_EQ(batch_.limits.size(), 4U);
  EXPECT_EQ(batch_.answers[1].first_limit, 2U);
  EXPECT_EQ(batch_.answers[1].limits_count, 2U);
  for (const uint32_t at : {0U, 1U, 2U, 3U}) EXPECT_EQ(batch_.limits[at].subject, at % 2);
}

}  // namespace
}  // namespace sluice::quota
