// The network between several simulated nodes: addresses, listeners that share one, routes, and
// what it does at random.
#include "io/sim/sim_wires.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <vector>

#include "io/sim/sim_io.hpp"

namespace sluice::io::wires_test {
namespace {

PeerAddress address(std::string_view text) {
  return PeerAddress::parse(text).value();
}

class SimWiresTest : public testing::Test {
 protected:
  SimIo& add(uint32_t node, uint32_t sockets_max = 512) {
    const SimOptions options{.node = node, .sockets_max = sockets_max};
    ios_.push_back(std::make_unique<SimIo>(options, network_));
    ios_.back()->accept_start(0);
    return *ios_.back();
  }

  // Polls all of them, until nothing is under way.
  void run() {
    for (int rounds = 0; rounds < 20; ++rounds) {
      for (const auto& io : ios_) poll(*io);
    }
  }

  void poll(SimIo& io) {
    std::array<Event, 512> events;
    const size_t count = io.poll(events, 0);
    for (const Event& event : std::span(events).first(count)) {
      ++counts_[&io][event.kind];
      if (event.kind == EventKind::failed) failures_[&io].push_back(event.result);
    }
  }

  uint64_t count(const SimIo& io, EventKind kind) { return counts_[&io][kind]; }
  SimWires& wires() { return network_.wires(); }

  Random random_{7};
  SimNetwork network_{random_};
  std::vector<std::unique_ptr<SimIo>> ios_;
  std::map<const SimIo*, std::map<EventKind, uint64_t>> counts_;
  std::map<const SimIo*, std::vector<int32_t>> failures_;
};

TEST_F(SimWiresTest, workers_that_listen_at_one_address_share_its_connections) {
  SimIo& caller = add(1);
  SimIo& one = add(2);
  SimIo& two = add(2);
  const PeerAddress peer = address("10.0.0.2:8081");
  for (SimIo* worker : {&one, &two}) worker->listen(0, peer);
  for (int each = 0; each < 100; ++each) ASSERT_TRUE(caller.connect(peer));
  run();
  EXPECT_EQ(count(caller, EventKind::connected), 100u);
  EXPECT_GT(count(one, EventKind::accepted), 25u);
  EXPECT_GT(count(two, EventKind::accepted), 25u);
  EXPECT_EQ(count(one, EventKind::accepted) + count(two, EventKind::accepted), 100u);
}

TEST_F(SimWiresTest, a_port_of_its_own_is_an_address_of_its_own) {
  SimIo& caller = add(1);
  SimIo& callee = add(2);
  callee.accept_start(1);
  callee.listen(1, address("10.0.0.2:8081"));
  ASSERT_TRUE(caller.connect(address("10.0.0.2:8082")));
  ASSERT_TRUE(caller.connect(address("10.0.0.2:8081")));
  run();
  EXPECT_EQ(failures_[&caller], std::vector<int32_t>{-EHOSTUNREACH});
  EXPECT_EQ(count(caller, EventKind::connected), 1u);
}

// A node reaches itself whatever happens to the network around it.
TEST_F(SimWiresTest, a_node_connects_to_itself) {
  SimIo& both = add(1);
  both.listen(0, address("10.0.0.1:8081"));
  for (const uint32_t other : {2u, 3u}) {
    network_.cut({.from = 1, .to = other});
    network_.cut({.from = other, .to = 1});
  }
  ASSERT_TRUE(both.connect(address("10.0.0.1:8081")));
  run();
  EXPECT_EQ(count(both, EventKind::accepted), 1u);
  EXPECT_EQ(count(both, EventKind::connected), 1u);
}

TEST_F(SimWiresTest, a_cut_concerns_its_route_alone) {
  SimIo& one = add(1);
  SimIo& two = add(2);
  SimIo& three = add(3);
  two.listen(0, address("10.0.0.2:8081"));
  three.listen(0, address("10.0.0.3:8081"));
  network_.cut({.from = 1, .to = 2});
  ASSERT_TRUE(one.connect(address("10.0.0.2:8081")));
  ASSERT_TRUE(one.connect(address("10.0.0.3:8081")));
  ASSERT_TRUE(three.connect(address("10.0.0.2:8081")));
  run();
  EXPECT_EQ(count(one, EventKind::connected), 1u);
  EXPECT_EQ(count(three, EventKind::connected), 1u);
  EXPECT_EQ(count(two, EventKind::accepted), 1u);
  network_.heal({.from = 1, .to = 2});
  run();
  EXPECT_EQ(count(one, EventKind::connected), 2u);
}

TEST_F(SimWiresTest, refuses_as_many_connects_as_it_is_set_to) {
  SimIo& caller = add(1);
  SimIo& callee = add(2);
  callee.listen(0, address("10.0.0.2:8081"));
  wires().set_refusal_rate(0.5);
  for (int each = 0; each < 200; ++each) {
    ASSERT_TRUE(caller.connect(address("10.0.0.2:8081")));
  }
  run();
  EXPECT_EQ(wires().counts().connects, 200u);
  EXPECT_EQ(wires().counts().refusals, failures_[&caller].size());
  EXPECT_GT(wires().counts().refusals, 50u);
  EXPECT_LT(wires().counts().refusals, 150u);
  EXPECT_EQ(count(caller, EventKind::connected), 200 - wires().counts().refusals);
}

TEST_F(SimWiresTest, resets_connections_that_stand_at_the_rate_it_is_set_to) {
  SimIo& caller = add(1);
  SimIo& callee = add(2);
  callee.listen(0, address("10.0.0.2:8081"));
  for (int each = 0; each < 100; ++each) {
    ASSERT_TRUE(caller.connect(address("10.0.0.2:8081")));
  }
  run();
  EXPECT_EQ(wires().counts().resets, 0u);
  wires().set_reset_rate(0.01);
  run();
  wires().set_reset_rate(0);
  run();
  EXPECT_GT(wires().counts().resets, 5u);
  EXPECT_EQ(wires().counts().resets, failures_[&caller].size());
  EXPECT_EQ(wires().counts().resets, failures_[&callee].size());
}

TEST_F(SimWiresTest, without_a_connection_nothing_is_due_and_nothing_is_drawn) {
  add(1);
  wires().set_reset_rate(1);
  Random same(7);
  EXPECT_EQ(wires().due_ns(0), base::never_ns);
  wires().move(0);
  EXPECT_EQ(random_.next(), same.next());
}

}  // namespace
}  // namespace sluice::io::wires_test
