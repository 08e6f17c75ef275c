// Goal: what a client of several nodes does with calls of a node that is lost, shuts down or cannot
//       be reached: those that were not sent go to another node, and what only the owner knows is
//       asked nowhere else.
// Method: as in fleet_test.cpp.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "fleet_scripts.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using namespace test;

// ---------------------------------------------------------------------- what only owners know

TEST(FleetLosses, inspect_asks_the_owner_before_all_nodes_are_connected) {
  FakeFleet fleet{2};
  Client client{std::vector{fleet.address(0)}, patient()};
  EXPECT_FALSE(client.inspect(a_key_of(1, 2)));  // these nodes know no state
  EXPECT_EQ(fleet.keys(1), std::vector{a_key_of(1, 2)});
  EXPECT_TRUE(fleet.keys(0).empty());
}

TEST(FleetLosses, inspect_fails_while_the_owner_is_out_of_reach) {
  FakeFleet fleet{2};
  fleet.name_port(1, port_of_nobody());
  Client client{std::vector{fleet.address(0)}, patient()};
  EXPECT_THROW((void)client.inspect(a_key_of(1, 2)), ConnectionLost);
  EXPECT_TRUE(fleet.keys(0).empty());
  EXPECT_FALSE(client.inspect(a_key_of(0, 2)));
}

TEST(FleetLosses, inspect_asks_no_node_that_takes_over_from_the_owner) {
  FakeFleet fleet{2};
  fleet.take_frames(1, 1);
  Client client{std::vector{fleet.address(0)}, one_frame()};
  wait_for_connections(client, 2);
  fleet.hold(1);
  auto sent = client.acquire_future(a_key_of(1, 2));
  std::thread inspecting{
      [&] { EXPECT_THROW((void)client.inspect(a_key_of(1, 2)), ConnectionLost); }};
  wait_until_pending(client, 2);
  fleet.kill(1);
  inspecting.join();
  EXPECT_EQ(sent.get().failure, Failure::connection_lost);
  EXPECT_TRUE(fleet.keys(0).empty());
}

TEST(FleetLosses, handles_are_those_of_the_node_that_took_their_keys_over) {
  FakeFleet fleet{2};
  fleet.take_frames(1, 1);
  Client client{std::vector{fleet.address(0)}, one_frame()};
  wait_for_connections(client, 2);
  fleet.hold(1);
  const std::string key = a_key_of(1, 2);
  auto sent = client.acquire_future(key);
  std::vector<uint32_t> handles;
  std::thread interning{[&] { handles = client.intern(std::vector{std::string_view{key}}); }};
  wait_until_pending(client, 2);
  fleet.kill(1);
  interning.join();
  EXPECT_EQ(sent.get().failure, Failure::connection_lost);
  EXPECT_EQ(fleet.keys(0), std::vector{key});
  EXPECT_TRUE(client.acquire_batch(handles).all_approved());
  EXPECT_EQ(fleet.keys(0), std::vector{key}) << "asked by number";
}

// ----------------------------------------------------------------------------- calls not sent

TEST(FleetLosses, calls_that_a_node_was_not_sent_before_its_shutdown_go_to_another_one) {
  Piled piled{{.on_failure = OnFailure::closed}};
  Client& client = piled.client;
  const std::string key = a_key_of(1, 2);
  auto sent = client.acquire_future(key);
  auto called_back = client.acquire_future(key);
  wait_until_pending(client, 2);
  piled.fleet.go_away(1);
  EXPECT_TRUE(called_back.get());
  EXPECT_EQ(piled.fleet.keys(0), std::vector{key});
  piled.fleet.kill(1);
  EXPECT_EQ(sent.get().failure, Failure::draining);
}

TEST(FleetLosses, calls_that_the_last_node_was_not_sent_before_its_shutdown_fail) {
  FakeFleet fleet{1};
  Client client{std::vector{fleet.address(0)}, one_frame()};
  client.ping();
  fleet.hold(0);
  auto sent = client.acquire_future("key");
  auto not_sent = client.acquire_future("key");
  wait_until_pending(client, 2);
  fleet.go_away(0);
  EXPECT_EQ(not_sent.get().failure, Failure::draining);
  fleet.kill(0);
  EXPECT_EQ(sent.get().failure, Failure::draining);
}

// --------------------------------------------------------------------------------- connecting

TEST(FleetLosses, home_stays_home_when_all_connections_were_lost_for_a_moment) {
  FakeFleet fleet{2};
  fleet.kill(0);
  ClientOptions options = patient({.on_failure = OnFailure::closed});
  options.backoff_first = options.backoff_longest = 300ms;  // both are back before the next attempt
  Client client{std::vector{fleet.address(0), fleet.address(1)}, options};
  client.ping();
  fleet.start(0);
  fleet.report(1);
  client.ping();  // with its answer the report is read
  wait_for_connections(client, 2);
  fleet.kill(0);
  fleet.kill(1);
  wait_for_connections(client, 0);
  while (client.acquire("key").failure != Failure::unreachable) std::this_thread::sleep_for(1ms);
  fleet.start(1);
  fleet.start(0);
  while (!client.acquire("key")) std::this_thread::sleep_for(1ms);
  client.ping();
  EXPECT_EQ(fleet.pings(0), 0u);
}

TEST(FleetLosses, an_owner_that_does_not_say_who_it_is_has_a_second_only) {
  FakeFleet fleet{3};
  fleet.be_silent(1);
  const auto start = std::chrono::steady_clock::now();
  Client client{std::vector{fleet.address(0)}, patient({.connect_timeout = 10s})};
  wait_for_connections(client, 2);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(FleetLosses, a_lost_node_is_connected_before_those_that_are_out_of_reach) {
  FakeFleet fleet{4};
  for (const uint32_t place : {1u, 2u}) fleet.be_silent(place);
  ClientOptions options = quick({.connect_timeout = 500ms});
  options.owner_retry = 1ms;
  Client client{std::vector{fleet.address(0)}, options};
  wait_for_connections(client, 2);
  EXPECT_TRUE(client.acquire(a_key_of(3, 4)));
  const auto wait_for_next = [&](size_t count) {
    while (fleet.welcomes().size() == count) std::this_thread::sleep_for(1ms);
  };
  do {
    wait_for_next(fleet.welcomes().size());
  } while (fleet.welcomes().back() != 1);
  const size_t before = fleet.welcomes().size();
  fleet.kill(3);
  fleet.start(3);
  wait_for_next(before);
  EXPECT_EQ(fleet.welcomes()[before], 3u);
}

}  // namespace
}  // namespace sluicegate
