// Goal: a client of several nodes sends a call about quotas to the shard that owns its first
//       subject, or that has its reservation. Other nodes get it only while that one is out of
//       reach.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "fleet_scripts.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using namespace test;
using sluice::proto::subject_node;

// Without a {tag}, subjects have the owners that keys of the same name have.
std::string a_subject_of(uint32_t place, uint32_t nodes_count) {
  return a_key_of(place, nodes_count);
}

std::vector<std::string> plain_and_tagged() {
  std::vector<std::string> subjects = keys;
  for (const std::string& key : keys) subjects.push_back("tenant:{" + key + "}:tokens");
  return subjects;
}

void expect_owner(const AskedQuota& asked, uint32_t place, uint32_t nodes_count, uint32_t shards) {
  if (asked.reservation != 0) {
    EXPECT_EQ(sluice::proto::reservation_id::slot_of(asked.reservation), place + 1);
    EXPECT_EQ(sluice::proto::reservation_shard(asked.reservation, shards), asked.shard);
    return;
  }
  EXPECT_EQ(subject_node(asked.subject, nodes_count), place) << asked.subject;
  const uint64_t hash = sluice::proto::routing_hash(asked.subject, FakeFleet::routing_seed(place));
  EXPECT_EQ(sluice::proto::owner_shard(hash, shards), asked.shard) << asked.subject;
}

// Each node has answered calls, and all of them were its own; returns their kinds.
std::set<Which> expect_own_calls_only(FakeFleet& fleet, uint32_t nodes_count, uint32_t shards) {
  std::set<Which> kinds;
  for (uint32_t place = 0; place < nodes_count; ++place) {
    const auto asked = fleet.asked_quotas(place);
    EXPECT_FALSE(asked.empty());
    for (const AskedQuota& each : asked) {
      expect_owner(each, place, nodes_count, shards);
      kinds.insert(each.kind);
    }
  }
  return kinds;
}

// ------------------------------------------------------------------------------------- owners

TEST(FleetQuotas, each_call_goes_to_the_shard_that_has_its_first_subject_or_its_reservation) {
  FakeFleet fleet{3, 2};
  Client client{std::vector{fleet.address(2)}, patient()};
  wait_for_connections(client, 6);
  std::vector<Reservation> forgotten;
  for (const std::string& subject : plain_and_tagged()) {
    EXPECT_EQ(client.put_quota(subject, {}), QuotaCode::ok);
    EXPECT_TRUE(client.get_quota(subject));
    Reservation call = client.reserve({subject, "another subject"}, {});
    EXPECT_TRUE(call.extend(60'000));
    EXPECT_TRUE(call.settle({}));
    forgotten.push_back(client.reserve_future(subject).get());
    EXPECT_TRUE(client.check(subject));
    EXPECT_TRUE(client.record(subject));
    EXPECT_TRUE(client.consume(subject, {}));
    EXPECT_EQ(client.reset(subject), QuotaCode::ok);
    EXPECT_EQ(client.remove_quota(subject), QuotaCode::ok);
  }
  forgotten.clear();
  wait_until_pending(client, 0);
  const std::set<Which> kinds = expect_own_calls_only(fleet, 3, 2);
  EXPECT_EQ(kinds, (std::set<Which>{Which::RESERVE, Which::CHECK, Which::SETTLE, Which::CANCEL,
                                    Which::EXTEND, Which::RECORD, Which::CONSUME, Which::USAGE,
                                    Which::QUOTA, Which::RESET}));
}

TEST(FleetQuotas, batches_are_cut_by_owner) {
  FakeFleet fleet{3, 2};
  Client client{std::vector{fleet.address(0)}, patient()};
  wait_for_connections(client, 6);
  std::vector<ReserveEntry> entries;
  for (const std::string& subject : keys) entries.push_back({.subject = subject});
  for (const bool may_wait : {false, true}) {
    const QuotaBatchOutcome outcome = client.reserve_batch(entries, {.may_wait = may_wait});
    EXPECT_EQ(outcome.codes, std::vector<QuotaCode>(keys.size(), QuotaCode::ok));
    std::vector<SettleEntry> settled;
    for (const uint64_t reservation : outcome.reservations) settled.push_back({reservation});
    EXPECT_EQ(client.settle_batch(settled).codes, outcome.codes);
  }
  EXPECT_EQ(expect_own_calls_only(fleet, 3, 2), (std::set<Which>{Which::RESERVE, Which::SETTLE}));
}

TEST(FleetQuotas, kept_settles_go_to_the_nodes_that_have_their_reservations) {
  FakeFleet fleet{3, 2};
  Client client{std::vector{fleet.address(0)}, patient()};
  wait_for_connections(client, 6);
  std::vector<Reservation> calls;
  for (const std::string& subject : keys) calls.push_back(client.reserve(subject));
  for (Reservation& call : calls) call.settle_nowait();
  while (client.settles().kept > 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(client.settles(), (SettleCounts{.settled = keys.size()}));
  EXPECT_EQ(expect_own_calls_only(fleet, 3, 2), (std::set<Which>{Which::RESERVE, Which::SETTLE}));
}

TEST(FleetQuotas, home_is_asked_for_what_names_no_subject_and_no_node) {
  constexpr uint64_t of_no_list = 5;
  constexpr uint64_t of_a_longer_list = sluice::proto::reservation_id::make(0, false, 5, 4);
  FakeFleet fleet{3};
  Client client{std::vector{fleet.address(2)}, patient()};
  wait_for_connections(client, 3);
  (void)client.usage_page();
  EXPECT_EQ(client.reset_all(), QuotaCode::ok);
  EXPECT_TRUE(client.settle(of_no_list));
  EXPECT_TRUE(client.settle(of_a_longer_list));
  EXPECT_EQ(fleet.asked_quotas(2).size(), 4u);
}

// ------------------------------------------------------------------- what a node has forgotten

size_t records(FakeFleet& fleet, uint32_t nodes_count) {
  size_t sum = 0;
  for (uint32_t place = 0; place < nodes_count; ++place) {
    const auto asked = fleet.asked_quotas(place);
    sum += static_cast<size_t>(std::ranges::count(asked, Which::RECORD, &AskedQuota::kind));
  }
  return sum;
}

TEST(FleetQuotas, what_a_node_that_was_not_restarted_has_forgotten_is_not_recorded) {
  FakeFleet fleet{3, 2};
  for (uint32_t place = 0; place < 3; ++place) fleet.lose_reservations(place);
  Client client{std::vector{fleet.address(0)}, patient({.on_failure = OnFailure::closed})};
  wait_for_connections(client, 6);
  for (const std::string& subject : keys) {
    EXPECT_EQ(client.reserve(subject).settle().code, QuotaCode::unknown_reservation);
  }
  EXPECT_EQ(records(fleet, 3), 0u);
}

TEST(FleetQuotas, what_a_restarted_node_has_forgotten_is_recorded) {
  FakeFleet fleet{2};
  ClientOptions options = quick({.on_failure = OnFailure::closed});
  options.owner_retry = 1ms;
  Client client{std::vector{fleet.address(0)}, options};
  wait_for_connections(client, 2);
  Reservation call = client.reserve(a_subject_of(1, 2));
  fleet.lose_reservations(1);
  fleet.kill(1);
  wait_for_connections(client, 1);
  fleet.start(1);
  wait_for_connections(client, 2);
  EXPECT_EQ(call.settle().code, QuotaCode::ok);
  EXPECT_EQ(records(fleet, 2), 1u);
}

// Of a node that is asked through another one, the client cannot know whether it was restarted.
TEST(FleetQuotas, what_a_node_has_forgotten_that_another_one_asks_is_recorded) {
  FakeFleet fleet{2};
  fleet.lose_reservations(0);
  fleet.name_port(1, port_of_nobody());
  Client connected_to_one{fleet.address(0), quick({.on_failure = OnFailure::closed})};
  Client connected_to_one_of_two{std::vector{fleet.address(0)},
                                 patient({.on_failure = OnFailure::closed})};
  for (Client* client : {&connected_to_one, &connected_to_one_of_two}) {
    wait_for_connections(*client, 1);
    fleet.forget();
    EXPECT_EQ(client->reserve(a_subject_of(1, 2)).settle().code, QuotaCode::ok);
    EXPECT_EQ(records(fleet, 2), 1u);
  }
}

// ------------------------------------------------------------------------ owners out of reach

TEST(FleetQuotas, an_owner_out_of_reach_is_asked_through_another_node) {
  FakeFleet fleet{3};
  fleet.name_port(2, port_of_nobody());
  Client client{std::vector{fleet.address(0)}, patient()};
  wait_for_connections(client, 2);
  for (const std::string& subject : keys) {
    Reservation call = client.reserve(subject);
    EXPECT_TRUE(call.settle({}));
  }
  EXPECT_TRUE(fleet.asked_quotas(2).empty());
  EXPECT_EQ(fleet.asked_quotas(0).size() + fleet.asked_quotas(1).size(), 2 * keys.size());
}

TEST(FleetQuotas, the_cancel_of_a_guard_goes_through_another_node_when_its_own_is_lost) {
  FakeFleet fleet{2};
  Client client{std::vector{fleet.address(0)}, patient()};
  wait_for_connections(client, 2);
  uint64_t id = 0;
  {
    const Reservation call = client.reserve(a_subject_of(1, 2));
    id = call.id();
    EXPECT_EQ(fleet.asked_quotas(1).size(), 1u);
    fleet.kill(1);
    wait_for_connections(client, 1);
  }
  wait_until_pending(client, 0);
  const auto asked = fleet.asked_quotas(0);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].kind, Which::CANCEL);
  EXPECT_EQ(asked[0].reservation, id);
}

// -------------------------------------------------------------------------------------- losses

TEST(FleetQuotas, calls_that_a_lost_node_was_not_sent_go_to_another_one_and_no_others) {
  for (const uint32_t lost : {0U, 1U}) {
    FakeFleet fleet{2};
    Client client{std::vector{fleet.address(0)}, one_frame()};
    wait_for_connections(client, 2);
    fleet.hold(lost);
    const std::string subject = a_subject_of(lost, 2);
    std::promise<QuotaOutcome> sent;
    client.record_async(subject, {}, [&](const QuotaOutcome& got) { sent.set_value(got); });
    std::promise<QuotaOutcome> called_back;
    client.record_async(subject, {}, [&](const QuotaOutcome& got) { called_back.set_value(got); });
    std::thread blocking{[&] { EXPECT_TRUE(client.consume(subject, {})); }};
    wait_until_pending(client, 3);
    fleet.kill(lost);
    EXPECT_EQ(sent.get_future().get().failure, Failure::connection_lost);
    EXPECT_TRUE(called_back.get_future().get());
    blocking.join();
    EXPECT_EQ(fleet.asked_quotas(1 - lost).size(), 2u);
    wait_until_pending(client, 0);
  }
}

TEST(FleetQuotas, with_requeue_a_record_is_sent_again_only_under_an_id) {
  FakeFleet fleet{2};
  Client client{std::vector{fleet.address(0)}, patient({.requeue = true, .call_timeout = 60s})};
  wait_for_connections(client, 2);
  fleet.hold(1);
  const std::string subject = a_subject_of(1, 2);
  std::promise<QuotaOutcome> without_id;
  client.record_async(subject, {}, [&](const QuotaOutcome& got) { without_id.set_value(got); });
  std::promise<QuotaOutcome> with_id;
  client.record_async(
      subject, {}, [&](const QuotaOutcome& got) { with_id.set_value(got); }, "an id");
  wait_until_pending(client, 2);
  fleet.kill(1);
  EXPECT_EQ(without_id.get_future().get().failure, Failure::connection_lost);
  EXPECT_TRUE(with_id.get_future().get());
  EXPECT_EQ(fleet.asked_quotas(0).size(), 1u);
}

TEST(FleetQuotas, calls_that_a_node_was_not_sent_before_its_shutdown_go_to_another_one) {
  for (const uint32_t stopping : {0U, 1U}) {
    FakeFleet fleet{2};
    Client client{std::vector{fleet.address(0)}, one_frame()};
    wait_for_connections(client, 2);
    fleet.hold(stopping);
    std::promise<QuotaOutcome> not_sent;
    client.record_async(a_subject_of(stopping, 2), {});
    client.record_async(a_subject_of(stopping, 2), {},
                        [&](const QuotaOutcome& got) { not_sent.set_value(got); });
    wait_until_pending(client, 2);
    fleet.go_away(stopping);
    EXPECT_TRUE(not_sent.get_future().get());
    EXPECT_EQ(fleet.asked_quotas(1 - stopping).size(), 1u);
  }
}

TEST(FleetQuotas, the_next_home_is_asked_for_what_home_was_not_sent) {
  FakeFleet fleet{3};
  fleet.take_frames(2, 1);
  Client client{std::vector{fleet.address(2)}, one_frame()};
  wait_for_connections(client, 3);
  fleet.hold(2);
  client.record_async(a_subject_of(2, 3), {});
  std::thread asking{[&] { (void)client.usage_page(); }};
  wait_until_pending(client, 2);
  fleet.kill(2);
  asking.join();
  const auto asked = fleet.asked_quotas(0);
  ASSERT_EQ(asked.size(), 1u) << "the first node that is left is home";
  EXPECT_EQ(asked[0].kind, Which::USAGE);
}

TEST(FleetQuotas, a_wait_that_another_node_took_over_is_withdrawn_there) {
  FakeFleet fleet{2};
  Client client{std::vector{fleet.address(0)}, one_frame({.requeue = true})};
  wait_for_connections(client, 2);
  fleet.hold(1);
  fleet.queue(0);
  std::promise<QuotaCode> called_back;
  const ReserveOptions options{.may_wait = true, .timeout = 30s};
  const Ticket ticket = client.reserve_async(
      a_subject_of(1, 2),
      [&](const Reservation& call) { called_back.set_value(call.outcome().code); }, options);
  std::stop_source stop;
  auto stopped = std::async(std::launch::async, [&] {
    return client.reserve(a_subject_of(1, 2), options, stop.get_token()).outcome().code;
  });
  wait_until_pending(client, 2);
  fleet.kill(1);
  while (fleet.asked_quotas(0).size() < 2) std::this_thread::sleep_for(1ms);
  client.cancel(ticket);
  EXPECT_EQ(called_back.get_future().get(), QuotaCode::withdrawn);
  stop.request_stop();
  EXPECT_EQ(stopped.get(), QuotaCode::withdrawn);
  wait_until_pending(client, 0);
}

}  // namespace
}  // namespace sluicegate
