// Connections between simulated nodes: they take their time, keep every byte in order, end as TCP's
// do, and suffer what the network is set to do to them.
// Method: two nodes, polled by hand or until nothing is under way.
#include "io/sim/sim_wire.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/sim/sim_io.hpp"

namespace sluice::io::wire_test {
namespace {

constexpr int64_t delay_ns = 3 * base::ns_per_ms;
constexpr SimRoute to_far{.from = 1, .to = 2};
constexpr SimRoute to_near{.from = 2, .to = 1};
constexpr auto all_kinds = static_cast<size_t>(EventKind::refused) + 1;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

PeerAddress address(std::string_view text) {
  return PeerAddress::parse(text).value();
}

// What one node has seen. It has one connection.
struct Node {
  explicit Node(std::unique_ptr<SimIo> its_io) : io(std::move(its_io)) { io->accept_start(0); }

  uint64_t count(EventKind kind) const { return counts[static_cast<size_t>(kind)]; }

  size_t poll(int64_t wait_ns = 0) {
    std::array<Event, 16> events;
    const size_t polled = io->poll(events, wait_ns);
    for (const Event& event : std::span(events).first(polled)) note(event);
    return polled;
  }

  void note(const Event& event) {
    ++counts[static_cast<size_t>(event.kind)];
    if (event.kind == EventKind::accepted) socket = event.socket;
    if (event.kind == EventKind::accepted && receives) io->receive_start(event.socket);
    if (event.kind == EventKind::failed) failure = event.result;
    if (event.kind == EventKind::sent) sent_result = event.result;
    if (event.kind == EventKind::released) descriptor = event.result;
    if (event.kind != EventKind::received) return;
    received.append(reinterpret_cast<const char*>(event.bytes.data()), event.bytes.size());
  }

  std::unique_ptr<SimIo> io;
  SocketId socket;
  bool receives = true;  // accepted connections at once
  std::string received;
  int32_t failure = 0;
  int32_t sent_result = 0;
  int32_t descriptor = -1;
  std::array<uint64_t, all_kinds> counts{};
};

class SimWireTest : public testing::Test {
 protected:
  SimWireTest() { far_.io->listen(0, far_address_); }

  void begin() { near_.socket = near_.io->connect(far_address_).value(); }

  void connect() {
    begin();
    run();
    ASSERT_EQ(near_.count(EventKind::connected), 1u);
    ASSERT_EQ(far_.count(EventKind::accepted), 1u);
    near_.io->receive_start(near_.socket);
  }

  // Polls until nothing is under way any more that is not cut off.
  void run() {
    for (int idle = 0; idle < 3;) {
      const size_t events = near_.poll() + far_.poll();
      const bool sends = near_.io->is_sending() || far_.io->is_sending();
      idle = events == 0 && !sends ? idle + 1 : 0;
      const int64_t now_ns = network_.clock().monotonic_ns;
      const int64_t due_ns = wires().due_ns(now_ns);
      if (due_ns == base::never_ns) continue;
      idle = 0;
      if (events == 0) network_.advance(std::max<int64_t>(due_ns - now_ns, 0));
    }
  }

  int64_t run_ns() {
    const int64_t before_ns = network_.clock().monotonic_ns;
    run();
    return network_.clock().monotonic_ns - before_ns;
  }

  SimWires& wires() { return network_.wires(); }

  const PeerAddress far_address_ = address("10.0.0.2:8081");
  Random random_{7};
  SimNetwork network_{random_};
  Node near_{std::make_unique<SimIo>(SimOptions{.node = 1, .sockets_max = 2}, network_)};
  Node far_{std::make_unique<SimIo>(SimOptions{.node = 2, .sockets_max = 2}, network_)};
};

TEST_F(SimWireTest, carries_bytes_both_ways) {
  connect();
  near_.io->send(near_.socket, bytes_of("question"));
  far_.io->send(far_.socket, bytes_of("answer"));
  run();
  EXPECT_EQ(far_.received, "question");
  EXPECT_EQ(near_.received, "answer");
  EXPECT_EQ(near_.sent_result, 8);
  EXPECT_EQ(far_.sent_result, 6);
}

TEST_F(SimWireTest, is_received_only_after_receive_start) {
  far_.receives = false;
  connect();
  near_.io->send(near_.socket, bytes_of("question"));
  run();
  EXPECT_EQ(far_.received, "");
  far_.io->receive_start(far_.socket);
  run();
  EXPECT_EQ(far_.received, "question");
}

TEST_F(SimWireTest, connecting_takes_a_round_trip_and_a_packet_one_way) {
  wires().set_delay(delay_ns, delay_ns);
  begin();
  EXPECT_EQ(run_ns(), 2 * delay_ns);
  EXPECT_EQ(near_.count(EventKind::connected), 1u);
  near_.io->receive_start(near_.socket);
  near_.io->send(near_.socket, bytes_of("question"));
  EXPECT_EQ(run_ns(), delay_ns);
  EXPECT_EQ(far_.received, "question");
}

TEST_F(SimWireTest, each_route_has_its_own_delay) {
  wires().set_delay(to_far, 5, 5);
  wires().set_delay(to_near, 70, 70);
  begin();
  EXPECT_EQ(run_ns(), 75);
}

TEST_F(SimWireTest, a_node_that_waits_sleeps_until_something_arrives) {
  wires().set_delay(delay_ns, delay_ns);
  begin();
  near_.poll();
  far_.poll(base::ns_per_s);
  EXPECT_EQ(network_.clock().monotonic_ns, sim_start.monotonic_ns + delay_ns);
  EXPECT_TRUE(far_.io->is_quiet() == false);
  far_.poll();
  EXPECT_EQ(far_.count(EventKind::accepted), 1u);
  EXPECT_TRUE(far_.io->is_quiet());
}

TEST_F(SimWireTest, needs_a_free_slot) {
  begin();
  begin();
  const auto third = near_.io->connect(far_address_);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error(), no_free_slot);
  near_.io->close(near_.socket);
  run();
  EXPECT_TRUE(near_.io->connect(far_address_));
}

// ------------------------------------------------------------------- that never stand

TEST_F(SimWireTest, is_refused_where_nobody_listens_any_more) {
  far_.io->accept_finish(0);
  far_.poll();
  begin();
  run();
  EXPECT_EQ(near_.failure, -ECONNREFUSED);
  EXPECT_EQ(near_.count(EventKind::failed), 1u);
  EXPECT_EQ(near_.count(EventKind::connected), 0u);
  near_.io->close(near_.socket);
  run();
  EXPECT_EQ(near_.count(EventKind::closed), 1u);
  EXPECT_EQ(wires().wires_count(), 0u);
}

TEST_F(SimWireTest, is_refused_by_a_node_whose_process_is_gone) {
  far_.io.reset();
  begin();
  for (int polls = 0; polls < 3; ++polls) near_.poll();
  EXPECT_EQ(near_.failure, -ECONNREFUSED);
}

TEST_F(SimWireTest, is_unreachable_where_nobody_ever_listened) {
  near_.socket = near_.io->connect(address("10.0.0.3:8081")).value();
  run();
  EXPECT_EQ(near_.failure, -EHOSTUNREACH);
}

TEST_F(SimWireTest, times_out_behind_a_cut_in_either_direction) {
  for (const SimRoute route : {to_far, to_near}) {
    network_.cut(route);
    begin();
    EXPECT_EQ(run_ns(), SimWire::connect_limit_ns);
    EXPECT_EQ(std::exchange(near_.failure, 0), -ETIMEDOUT);
    near_.io->close(near_.socket);
    run();
    network_.heal(route);
    run();
  }
  // Who had accepted it learns of its end when the network is there again.
  EXPECT_EQ(far_.count(EventKind::accepted), 1u);
  EXPECT_EQ(far_.failure, -ECONNRESET);
}

TEST_F(SimWireTest, is_closed_before_anybody_knows_of_it) {
  wires().set_delay(delay_ns, delay_ns);
  begin();
  near_.poll();
  near_.io->close(near_.socket);
  run();
  EXPECT_EQ(near_.count(EventKind::closed), 1u);
  EXPECT_EQ(near_.count(EventKind::connected) + near_.count(EventKind::failed), 0u);
  EXPECT_EQ(far_.count(EventKind::accepted), 0u);
  EXPECT_EQ(wires().wires_count(), 0u);
}

TEST_F(SimWireTest, is_closed_while_the_other_side_accepts_it) {
  wires().set_delay(delay_ns, delay_ns);
  begin();
  network_.advance(delay_ns);
  far_.poll();
  EXPECT_EQ(far_.count(EventKind::accepted), 1u);
  near_.io->close(near_.socket);
  run();
  EXPECT_EQ(near_.count(EventKind::connected), 0u);
  EXPECT_EQ(far_.failure, -ECONNRESET);
}

// ------------------------------------------------------------------- that are cut

TEST_F(SimWireTest, a_cut_holds_one_direction_and_heals_without_loss) {
  wires().set_delay(0, delay_ns);
  connect();
  network_.cut(to_far);
  EXPECT_TRUE(wires().is_cut(to_far));
  EXPECT_FALSE(wires().is_cut(to_near));
  const std::string text(5'000, 'q');
  near_.io->send(near_.socket, bytes_of(text));
  far_.io->send(far_.socket, bytes_of("answer"));
  run();
  EXPECT_EQ(far_.received, "");
  EXPECT_EQ(near_.received, "answer");
  network_.heal(to_far);
  EXPECT_LE(run_ns(), delay_ns);
  EXPECT_EQ(far_.received, text);
}

TEST_F(SimWireTest, what_a_cut_held_takes_its_time_again) {
  wires().set_delay(delay_ns, delay_ns);
  connect();
  network_.cut(to_far);
  near_.io->send(near_.socket, bytes_of("late"));
  run();
  network_.advance(base::ns_per_s);
  network_.heal(to_far);
  EXPECT_EQ(run_ns(), delay_ns);
  EXPECT_EQ(far_.received, "late");
}

TEST_F(SimWireTest, a_cut_holds_the_end_too) {
  connect();
  network_.cut(to_far);
  near_.io->close(near_.socket);
  run();
  EXPECT_EQ(far_.count(EventKind::end_of_stream), 0u);
  network_.heal(to_far);
  run();
  EXPECT_EQ(far_.count(EventKind::end_of_stream), 1u);
}

// ------------------------------------------------------------------- how they end

TEST_F(SimWireTest, each_side_ends_by_itself) {
  connect();
  near_.io->send(near_.socket, bytes_of("last words"));
  run();
  near_.io->send_finish(near_.socket);
  run();
  EXPECT_EQ(far_.received, "last words");
  EXPECT_EQ(far_.count(EventKind::end_of_stream), 1u);
  far_.io->send(far_.socket, bytes_of("an answer"));
  run();
  EXPECT_EQ(near_.received, "an answer");
  far_.io->send_finish(far_.socket);
  run();
  EXPECT_EQ(near_.count(EventKind::end_of_stream), 1u);
  near_.io->close(near_.socket);
  far_.io->close(far_.socket);
  run();
  EXPECT_EQ(near_.failure + far_.failure, 0);
  EXPECT_EQ(wires().wires_count(), 0u);
}

TEST_F(SimWireTest, bytes_for_a_closed_end_are_answered_by_a_reset) {
  connect();
  near_.io->close(near_.socket);
  run();
  EXPECT_EQ(far_.count(EventKind::end_of_stream), 1u);
  far_.io->send(far_.socket, bytes_of("nobody there"));
  run();
  // A kernel reports it to the next send.
  far_.io->send(far_.socket, bytes_of("again"));
  run();
  EXPECT_EQ(far_.sent_result, -ECONNRESET);
  EXPECT_EQ(far_.count(EventKind::sent), 2u);
}

TEST_F(SimWireTest, an_end_that_is_closed_with_unread_bytes_resets_the_other) {
  far_.receives = false;
  connect();
  near_.io->send(near_.socket, bytes_of("unread"));
  run();
  far_.io->close(far_.socket);
  run();
  EXPECT_EQ(near_.failure, -ECONNRESET);
}

TEST_F(SimWireTest, the_network_resets_both_ends) {
  connect();
  wires().reset(near_.io->link_of(near_.socket));
  run();
  EXPECT_EQ(near_.failure, -ECONNRESET);
  EXPECT_EQ(far_.failure, -ECONNRESET);
  EXPECT_TRUE(network_.link(far_.io->link_of(far_.socket)).cut_by_network);
}

TEST_F(SimWireTest, a_reset_at_one_end_travels_to_the_other) {
  wires().set_delay(delay_ns, delay_ns);
  connect();
  network_.faults().set_rate(Fault::reset_idle, 1);
  far_.poll();
  network_.faults().calm();
  EXPECT_EQ(far_.failure, -ECONNRESET);
  EXPECT_EQ(near_.failure, 0);
  EXPECT_EQ(run_ns(), delay_ns);
  EXPECT_EQ(near_.failure, -ECONNRESET);
}

TEST_F(SimWireTest, a_process_that_dies_ends_what_it_had_accepted) {
  connect();
  near_.io->send(near_.socket, bytes_of("received"));
  run();
  far_.io.reset();
  for (int polls = 0; polls < 3; ++polls) near_.poll();
  EXPECT_EQ(near_.count(EventKind::end_of_stream), 1u);
  EXPECT_EQ(near_.failure, 0);
}

TEST_F(SimWireTest, a_process_that_dies_resets_what_it_had_not_accepted) {
  begin();
  near_.poll();  // it is in the backlog
  near_.poll();
  EXPECT_EQ(near_.count(EventKind::connected), 1u);
  far_.io.reset();
  for (int polls = 0; polls < 3; ++polls) near_.poll();
  EXPECT_EQ(near_.failure, -ECONNRESET);
}

TEST_F(SimWireTest, a_process_that_starts_again_is_reached_at_its_address) {
  connect();
  far_.io.reset();
  near_.poll();
  near_.io->close(near_.socket);
  near_.poll();
  far_.io = std::make_unique<SimIo>(SimOptions{.node = 2, .sockets_max = 2}, network_);
  far_.io->accept_start(0);
  far_.io->listen(0, far_address_);
  begin();
  run();
  EXPECT_EQ(near_.count(EventKind::connected), 2u);
  EXPECT_EQ(far_.count(EventKind::accepted), 2u);
}

// ------------------------------------------------------------------- flow

// A paused node takes no more than the windows between the two.
TEST_F(SimWireTest, a_peer_that_does_not_receive_stops_the_sender) {
  far_.receives = false;
  connect();
  const std::string text(1'000'000, 'x');
  near_.io->send(near_.socket, bytes_of(text));
  run();
  EXPECT_EQ(near_.count(EventKind::sent), 0u);
  const SimLink& far = network_.link(far_.io->link_of(far_.socket));
  EXPECT_EQ(far.to_server.size(), SimWire::window_bytes);
  far_.io->receive_start(far_.socket);
  run();
  EXPECT_EQ(near_.count(EventKind::sent), 1u);
  EXPECT_EQ(far_.received, text);
}

TEST_F(SimWireTest, an_end_moves_to_another_worker_and_its_wire_goes_on) {
  SimIo other({.node = 1, .sockets_max = 2}, network_);
  connect();
  near_.io->release(near_.socket);
  run();
  ASSERT_EQ(near_.count(EventKind::released), 1u);
  far_.io->send(far_.socket, bytes_of("for whoever has it"));
  run();
  const SocketId moved = other.adopt(near_.descriptor).value();
  other.receive_start(moved);
  std::array<Event, 4> events;
  ASSERT_EQ(other.poll(events, 0), 1u);
  EXPECT_EQ(events[0].bytes.size(), 18u);
}

// ------------------------------------------------------------------- seeds

// Both ends send all the time, with every fault but resets, and a network that cuts and heals: the
// bytes that arrived are the ones that were sent.
class SeededWire : public SimWireTest {
 protected:
  std::string play(uint64_t seed) {
    random_.reseed(seed);
    wires().set_delay(0, delay_ns);
    connect();
    network_.faults().draw();
    for (const Fault reset : {Fault::reset_idle, Fault::reset_mid_receive, Fault::reset_mid_send}) {
      network_.faults().set_rate(reset, 0);
    }
    std::string log;
    for (int step = 0; step < 3'000; ++step) {
      weather();
      Node& node = random_.chance(0.5) ? near_ : far_;
      send_some(node);
      node.poll(static_cast<int64_t>(random_.below(base::ns_per_ms)));
      log += std::to_string(network_.clock().monotonic_ns) + ":" +
             std::to_string(near_.received.size()) + "," + std::to_string(far_.received.size()) +
             " ";
    }
    network_.faults().calm();
    for (const SimRoute route : {to_far, to_near}) network_.heal(route);
    for (int polls = 0; polls < 300; ++polls) {  // buffers may be gone for a while
      near_.poll();
      far_.poll();
    }
    run();
    return log;
  }

  void weather() {
    if (!random_.chance(0.05)) return;
    const SimRoute route = random_.chance(0.5) ? to_far : to_near;
    wires().is_cut(route) ? network_.heal(route) : network_.cut(route);
  }

  void send_some(Node& node) {
    Outgoing& out = outgoing_[&node];
    if (node.count(EventKind::sent) < out.sends || random_.chance(0.5)) return;
    ++out.sends;
    out.text.clear();
    for (uint64_t left = 1 + random_.below(20'000); left > 0; --left) {
      out.text.push_back(static_cast<char>(random_.next()));
    }
    out.all += out.text;
    node.io->send(node.socket, bytes_of(out.text));
  }

  struct Outgoing {
    uint64_t sends = 0;
    std::string text;  // of the send in flight
    std::string all;
  };
  std::map<Node*, Outgoing> outgoing_;
};

class SeededWires : public SeededWire, public testing::WithParamInterface<uint64_t> {};

TEST_P(SeededWires, lose_double_and_reorder_nothing) {
  play(GetParam());
  EXPECT_GT(outgoing_[&near_].all.size(), 10'000u);
  EXPECT_GT(outgoing_[&far_].all.size(), 10'000u);
  EXPECT_EQ(far_.received.size(), outgoing_[&near_].all.size());
  EXPECT_EQ(near_.received.size(), outgoing_[&far_].all.size());
  EXPECT_TRUE(far_.received == outgoing_[&near_].all);
  EXPECT_TRUE(near_.received == outgoing_[&far_].all);
  EXPECT_EQ(near_.failure + far_.failure, 0);
}
INSTANTIATE_TEST_SUITE_P(Seeds, SeededWires, testing::Range<uint64_t>(1, 21));

class SeedAgain : public SeededWire {
 public:
  using SeededWire::play;
  void TestBody() override {}
};

TEST(SimWireSeed, plays_the_same_run_again) {
  const auto log_of = [](uint64_t seed) { return std::make_unique<SeedAgain>()->play(seed); };
  const std::string log = log_of(1);
  EXPECT_EQ(log, log_of(1));
  EXPECT_NE(log, log_of(2));
}

using SimWireDeathTest = SimWireTest;

TEST_F(SimWireDeathTest, only_close_may_come_before_connected) {
  begin();
  EXPECT_DEATH(near_.io->receive_start(near_.socket), "connecting");
  EXPECT_DEATH(near_.io->send(near_.socket, bytes_of("early")), "connecting");
  EXPECT_DEATH(near_.io->release(near_.socket), "connecting");
  near_.io->close(near_.socket);
}

}  // namespace
}  // namespace sluice::io::wire_test
