// Goal: a client with a list of addresses sends each key to the node that owns it; a node that it
//       cannot reach costs no call: another node gets its keys meanwhile.
// Method: fake nodes that note what they are asked; a test waits for connections and keys, never
//         for a length of time.
#include <gtest/gtest.h>

#include <future>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "fleet_scripts.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using namespace test;
using sluice::proto::key_node;

// Waits until the node is asked directly, by calls that succeed meanwhile.
void ask_until_direct(Client& client, FakeFleet& fleet, uint32_t place, uint32_t nodes_count) {
  const std::string key = a_key_of(place, nodes_count);
  while (fleet.asked(place).empty()) {
    ASSERT_TRUE(client.acquire(key));
    std::this_thread::sleep_for(1ms);
  }
}

void expect_owners_only(FakeFleet& fleet, uint32_t nodes_count) {
  for (uint32_t place = 0; place < nodes_count; ++place) {
    EXPECT_FALSE(fleet.keys(place).empty());
    for (const std::string& key : fleet.keys(place)) {
      EXPECT_EQ(key_node(key, nodes_count), place) << key;
    }
  }
}

// ------------------------------------------------------------------------------------- owners

// docs/clients.md says so.
TEST(ClientOptions, an_owner_out_of_reach_is_tried_again_every_thirty_seconds) {
  EXPECT_EQ(ClientOptions{}.owner_retry, 30s);
}

TEST(Fleet, each_key_goes_to_the_shard_that_owns_it) {
  FakeFleet fleet{3, 2};
  Client client{std::vector{fleet.address(1)}, patient()};
  wait_for_connections(client, 6);
  for (const std::string& key : keys) {
    EXPECT_TRUE(client.acquire(key));
    client.release(key);
    EXPECT_FALSE(client.inspect(key));  // these nodes know no state
    EXPECT_TRUE(client.acquire_future(key).get());
  }
  expect_owners_only(fleet, 3);
  for (uint32_t place = 0; place < 3; ++place) {
    for (const AskedKey& each : fleet.asked(place)) {
      const uint64_t hash = sluice::proto::routing_hash(each.key, FakeFleet::routing_seed(place));
      EXPECT_EQ(each.shard, sluice::proto::owner_shard(hash, 2));
    }
  }
}

TEST(Fleet, a_batch_is_cut_by_owner) {
  FakeFleet fleet{3, 2};
  Client client{std::vector{fleet.address(0)}, patient()};
  wait_for_connections(client, 6);
  EXPECT_TRUE(client.acquire_batch(key_views).all_approved());
  EXPECT_TRUE(client.acquire_batch(key_views, {.may_wait = true}).all_approved());
  expect_owners_only(fleet, 3);
}

TEST(Fleet, handles_are_those_of_the_owners) {
  FakeFleet fleet{3};
  Client client{std::vector{fleet.address(0)}, patient()};
  wait_for_connections(client, 3);
  const auto handles = client.intern(key_views);
  expect_owners_only(fleet, 3);
  fleet.forget();
  EXPECT_TRUE(client.acquire_batch(handles).all_approved());
  for (uint32_t place = 0; place < 3; ++place) {
    EXPECT_EQ(fleet.keys(place), std::vector<std::string>{}) << "all by number";
  }
}

TEST(Fleet, handles_from_before_the_other_nodes_were_reached_become_theirs) {
  FakeFleet fleet{2};
  fleet.name_port(1, port_of_nobody());
  Client client{std::vector{fleet.address(0)}, patient()};
  client.ping();
  const auto handles = client.intern(key_views);
  EXPECT_EQ(fleet.keys(0), keys);
  fleet.name_port(1, fleet.port(1));
  fleet.report(0);
  client.ping();  // with its answer the report is read
  wait_for_connections(client, 2);
  const std::vector<std::string> again = fleet.keys(1);
  EXPECT_FALSE(again.empty());
  for (const std::string& key : again) EXPECT_EQ(key_node(key, 2), 1u);
  EXPECT_TRUE(client.acquire_batch(handles).all_approved());
}

TEST(Fleet, a_single_address_asks_for_no_nodes) {
  FakeFleet fleet{2};
  Client client{fleet.address(0), quick()};
  EXPECT_TRUE(client.acquire_batch(key_views).all_approved());
  EXPECT_EQ(fleet.keys(0), keys);
  EXPECT_EQ(fleet.questions_for_nodes(), 0u);
}

TEST(Fleet, a_server_that_reports_no_nodes_gets_all_keys) {
  FakeServer server = serve(approve_all);
  Client client{std::vector{address_of(server)}, quick()};
  EXPECT_TRUE(client.acquire_batch(key_views).all_approved());
  EXPECT_EQ(client.connections(), 1u);
}

// -------------------------------------------------------------------------------------- finding

TEST(Fleet, calls_before_the_first_connection_wait_for_it) {
  FakeFleet fleet{3};
  Client client{std::vector{fleet.address(0)}, patient()};
  EXPECT_TRUE(client.acquire_batch(key_views).all_approved());
}

TEST(Fleet, the_next_address_is_tried_when_the_first_does_not_answer) {
  FakeFleet fleet{2};
  const std::string nobody = "127.0.0.1:" + std::to_string(port_of_nobody());
  Client client{std::vector{nobody, fleet.address(1)}, patient()};
  EXPECT_TRUE(client.acquire("key"));
  wait_for_connections(client, 2);
}

TEST(Fleet, a_silent_address_has_its_part_of_the_time_only) {
  Event tried;
  FakeServer silent{[&](Peer& peer) {
    peer.read();
    tried.happen();
    answer_nothing(peer);
  }};
  FakeFleet fleet{2};
  Client client{std::vector{address_of(silent), fleet.address(1)},
                patient({.connect_timeout = 1s, .call_timeout = 60s})};
  EXPECT_TRUE(client.acquire("key"));
  EXPECT_TRUE(tried.wait());
}

TEST(Fleet, without_any_node_calls_fail) {
  const std::string nobody = "127.0.0.1:" + std::to_string(port_of_nobody());
  Client client{std::vector{nobody, nobody}, patient()};
  EXPECT_THROW((void)client.acquire("key"), ConnectionLost);
}

TEST(Fleet, refuses_what_is_no_list_of_addresses) {
  EXPECT_THROW((Client{std::vector<std::string>{}}), std::invalid_argument);
  EXPECT_THROW((Client{std::vector<std::string>{"a:1", "b"}}), std::invalid_argument);
}

// ---------------------------------------------------------------------------- owners out of reach

TEST(Fleet, an_owner_out_of_reach_is_reached_through_another_node) {
  FakeFleet fleet{3};
  fleet.name_port(2, port_of_nobody());
  Client client{std::vector{fleet.address(0)}, patient()};
  wait_for_connections(client, 2);
  EXPECT_TRUE(client.acquire_batch(key_views).all_approved());
  for (const std::string& key : keys) {
    EXPECT_TRUE(client.acquire(key));
    EXPECT_TRUE(client.acquire_future(key).get());
  }
  EXPECT_TRUE(fleet.asked(2).empty());
  EXPECT_EQ(fleet.asked(0).size() + fleet.asked(1).size(), 3 * keys.size());
}

TEST(Fleet, an_owner_out_of_reach_is_tried_again) {
  FakeFleet fleet{2};
  fleet.kill(1);
  ClientOptions options = quick();
  options.owner_retry = 5ms;
  Client client{std::vector{fleet.address(0)}, options};
  EXPECT_TRUE(client.acquire(a_key_of(1, 2)));
  EXPECT_EQ(client.connections(), 1u);
  fleet.name_port(1, fleet.port(1));
  fleet.start(1);
  ask_until_direct(client, fleet, 1, 2);
}

TEST(Fleet, the_callers_addresses_lead_to_nodes_that_the_servers_name_in_vain) {
  FakeFleet fleet{3, 2};
  for (const uint32_t place : {0u, 1u, 2u}) fleet.name_port(place, port_of_nobody());
  Client client{std::vector{fleet.address(2), fleet.address(0), fleet.address(1)}, patient()};
  wait_for_connections(client, 6);
  EXPECT_TRUE(client.acquire_batch(key_views).all_approved());
  expect_owners_only(fleet, 3);
}

TEST(Fleet, another_server_at_the_owners_address_is_not_asked) {
  for (const bool has_another_list : {true, false}) {
    FakeFleet fleet{3};
    if (has_another_list) {
      fleet.set_digest(2, 99);
    } else {
      fleet.say_place(2, 1);
    }
    Client client{std::vector{fleet.address(0)}, patient()};
    wait_for_connections(client, 2);
    while (fleet.questions_for_nodes() < 3) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(client.acquire_batch(key_views).all_approved());
    EXPECT_TRUE(fleet.asked(2).empty());
  }
}

TEST(Fleet, a_node_that_is_not_known_yet_is_connected_once_it_is_reported) {
  FakeFleet fleet{2};
  fleet.name_port(1, 0);
  Client client{std::vector{fleet.address(0)}, patient()};
  EXPECT_TRUE(client.acquire_batch(key_views).all_approved());
  EXPECT_EQ(fleet.keys(0), keys);
  fleet.name_port(1, fleet.port(1));
  fleet.report(0);
  ask_until_direct(client, fleet, 1, 2);
}

// -------------------------------------------------------------------------------------- losses

TEST(Fleet, the_keys_of_a_node_that_was_killed_go_to_another_one) {
  FakeFleet fleet{3};
  Client client{std::vector{fleet.address(0)}, patient()};
  wait_for_connections(client, 3);
  fleet.kill(2);
  wait_for_connections(client, 2);
  EXPECT_TRUE(client.acquire_batch(key_views).all_approved());
  EXPECT_EQ(fleet.asked(0).size() + fleet.asked(1).size(), keys.size());
}

TEST(Fleet, a_node_that_is_reported_as_restarted_is_connected_at_once) {
  FakeFleet fleet{3, 2};
  Client client{std::vector{fleet.address(0)}, patient()};
  wait_for_connections(client, 6);
  fleet.kill(2);
  wait_for_connections(client, 4);
  EXPECT_TRUE(client.acquire(a_key_of(2, 3)));
  fleet.set_shards(2, 3);
  fleet.start(2);
  fleet.report(0);
  ask_until_direct(client, fleet, 2, 3);
  wait_for_connections(client, 7);
}

TEST(Fleet, the_first_node_is_no_more_needed_than_the_others) {
  FakeFleet fleet{3};
  Client client{std::vector{fleet.address(0)}, patient()};
  wait_for_connections(client, 3);
  fleet.kill(0);
  wait_for_connections(client, 2);
  EXPECT_TRUE(client.acquire_batch(key_views).all_approved());
  client.ping();
  EXPECT_EQ(fleet.asked(1).size() + fleet.asked(2).size(), keys.size());
}

TEST(Fleet, all_nodes_may_go_and_return) {
  FakeFleet fleet{2};
  Client client{std::vector{fleet.address(0), fleet.address(1)},
                patient({.on_failure = OnFailure::closed})};
  wait_for_connections(client, 2);
  client.ping();
  fleet.kill(0);
  fleet.kill(1);
  wait_for_connections(client, 0);
  while (client.acquire("key").failure != Failure::unreachable) std::this_thread::sleep_for(1ms);
  fleet.start(1);
  while (!client.acquire(a_key_of(0, 2))) std::this_thread::sleep_for(1ms);
  fleet.start(0);
  fleet.report(1);
  ask_until_direct(client, fleet, 0, 2);
}

TEST(Fleet, a_server_that_names_fewer_ports_makes_no_node_unknown) {
  FakeFleet fleet{2};
  Client client{std::vector{fleet.address(0)}, patient({.on_failure = OnFailure::closed})};
  wait_for_connections(client, 2);
  client.ping();
  fleet.kill(1);
  wait_for_connections(client, 1);
  const uint16_t port = fleet.port(1);
  fleet.name_port(1, 0);
  fleet.report(0);
  client.ping();
  client.ping();  // the report was read before
  fleet.kill(0);
  fleet.start(1);
  fleet.name_port(1, port);
  while (!client.acquire(a_key_of(1, 2))) std::this_thread::sleep_for(1ms);
}

TEST(Fleet, nodes_with_another_list_are_learned_anew) {
  FakeFleet fleet{2};
  Client client{std::vector{fleet.address(0), fleet.address(1)},
                patient({.on_failure = OnFailure::closed})};
  wait_for_connections(client, 2);
  client.ping();
  for (const uint32_t place : {0u, 1u}) {
    fleet.kill(place);
    fleet.set_digest(place, 99);
    fleet.say_place(place, 1 - place);
  }
  fleet.start(0);
  fleet.start(1);
  // Their places are exchanged.
  while (fleet.asked(1).empty()) (void)client.acquire(a_key_of(0, 2));
  fleet.forget();
  wait_for_connections(client, 2);
  EXPECT_TRUE(client.acquire_batch(key_views).all_approved());
  for (const std::string& key : fleet.keys(0)) EXPECT_EQ(key_node(key, 2), 1u);
  for (const std::string& key : fleet.keys(1)) EXPECT_EQ(key_node(key, 2), 0u);
}

TEST(Fleet, calls_that_a_lost_node_was_not_sent_go_to_another_one) {
  Piled piled{{.on_failure = OnFailure::closed}};
  Client& client = piled.client;
  const std::string key = a_key_of(1, 2);
  auto sent = client.acquire_future(key);
  auto called_back = client.acquire_future(key);
  std::thread blocking{[&] {
    const Outcome outcome = client.acquire(key);
    EXPECT_EQ(outcome.failure, Failure::none);
    EXPECT_TRUE(outcome);
  }};
  wait_until_pending(client, 3);
  piled.fleet.kill(1);
  EXPECT_EQ(sent.get().failure, Failure::connection_lost);
  EXPECT_TRUE(called_back.get());
  blocking.join();
  EXPECT_EQ(piled.fleet.keys(0), (std::vector<std::string>{key, key}));
  wait_until_pending(client, 0);
}

TEST(Fleet, with_requeue_the_calls_of_a_lost_node_go_to_another_one) {
  Piled piled{{.requeue = true}};
  Client& client = piled.client;
  const std::string key = a_key_of(1, 2);
  auto sent = client.acquire_future(key);
  std::thread blocking{[&] { EXPECT_TRUE(client.acquire(key)); }};
  std::thread batch{[&] { EXPECT_TRUE(client.acquire_batch(key_views).all_approved()); }};
  while (client.pending() < 3) std::this_thread::sleep_for(1ms);
  piled.fleet.kill(1);
  EXPECT_TRUE(sent.get());
  blocking.join();
  batch.join();
  wait_until_pending(client, 0);
}

TEST(Fleet, handles_of_a_lost_node_are_asked_by_key) {
  FakeFleet fleet{2};
  Client client{std::vector{fleet.address(0)}, patient()};
  wait_for_connections(client, 2);
  const auto handles = client.intern(key_views);
  fleet.forget();
  fleet.kill(1);
  wait_for_connections(client, 1);
  EXPECT_TRUE(client.acquire_batch(handles).all_approved());
  const std::vector<std::string> asked = fleet.keys(0);
  for (const std::string& key : keys) {
    if (key_node(key, 2) == 1) {
      EXPECT_EQ(std::ranges::count(asked, key), 1) << key;
    }
  }
}

// Both withdraw their call where it waits now, and not where it was made.
TEST(Fleet, waiting_calls_that_another_node_took_over_can_be_cancelled_and_stopped) {
  Piled piled{{.requeue = true}};
  Client& client = piled.client;
  const std::string key = a_key_of(1, 2);
  piled.fleet.queue(0);
  std::promise<Outcome> called_back;
  const AcquireOptions options{.may_wait = true, .timeout = 30s};
  const Ticket ticket = client.acquire_async(
      key, [&](const Outcome& outcome) { called_back.set_value(outcome); }, options);
  std::stop_source stop;
  auto stopped = std::async(std::launch::async,
                            [&] { return client.acquire(key, options, stop.get_token()); });
  wait_until_pending(client, 2);
  piled.fleet.kill(1);
  while (piled.fleet.keys(0).size() < 2) std::this_thread::sleep_for(1ms);
  client.cancel(ticket);
  EXPECT_EQ(called_back.get_future().get().verdict, Verdict::withdrawn);
  stop.request_stop();
  EXPECT_EQ(stopped.get().verdict, Verdict::withdrawn);
  wait_until_pending(client, 0);
}

TEST(Fleet, calls_that_another_node_took_over_time_out) {
  Piled piled{{.on_failure = OnFailure::closed}};
  Client& client = piled.client;
  const std::string key = a_key_of(1, 2);
  piled.fleet.hold(0);
  auto sent = client.acquire_future(key);
  std::thread blocking{[&] {
    EXPECT_EQ(client.acquire(key, {.timeout = sent_before}).failure, Failure::timed_out);
  }};
  auto late = client.acquire_future(key, {.timeout = sent_before});
  wait_until_pending(client, 3);
  piled.fleet.kill(1);
  blocking.join();
  ASSERT_EQ(late.wait_for(30s), std::future_status::ready);
  EXPECT_EQ(late.get().failure, Failure::timed_out);
  EXPECT_EQ(sent.get().failure, Failure::connection_lost);
  wait_until_pending(client, 0);
}

TEST(Fleet, a_node_that_shuts_down_is_asked_no_more) {
  FakeFleet fleet{2};
  Client client{std::vector{fleet.address(0)}, patient()};
  wait_for_connections(client, 2);
  client.ping();
  EXPECT_TRUE(client.acquire(a_key_of(1, 2)));
  fleet.forget();
  fleet.go_away(1);
  EXPECT_TRUE(client.acquire(a_key_of(1, 2)));  // with its answer the warning is read
  wait_for_connections(client, 1);
  fleet.forget();
  EXPECT_TRUE(client.acquire(a_key_of(1, 2)));
  EXPECT_TRUE(fleet.asked(1).empty());
}

}  // namespace
}  // namespace sluicegate
