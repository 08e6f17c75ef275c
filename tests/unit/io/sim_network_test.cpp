// Several simulated workers in one network: connections move between them and lose nothing, they
// share one clock, wake-ups are late but never lost.
#include "io/sim/sim_network.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/sim/sim_io.hpp"

namespace sluice::io {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class SimNetworkTest : public testing::Test {
 protected:
  SimNetworkTest() {
    a_.accept_start(0);
    b_.accept_start(0);
  }

  // The events of one poll; received bytes of all workers make one text.
  std::vector<Event> poll(SimIo& io, int64_t wait_ns = 0, size_t events_max = 64) {
    std::vector<Event> events(events_max);
    events.resize(io.poll(events, wait_ns));
    bool bytes = false;
    for (const Event& event : events) {
      // There is one connection: a close() because of its last bytes must be in time.
      if (event.kind == EventKind::released) {
        EXPECT_FALSE(bytes);
      }
      if (event.kind != EventKind::received) continue;
      bytes = true;
      received_.append(reinterpret_cast<const char*>(event.bytes.data()), event.bytes.size());
    }
    return events;
  }

  Event poll_one(SimIo& io) {
    const std::vector<Event> events = poll(io);
    EXPECT_EQ(events.size(), 1u);
    return events.empty() ? Event{} : events.front();
  }

  SocketId accept(SimIo& io) {
    const Event event = poll_one(io);
    EXPECT_EQ(event.kind, EventKind::accepted);
    return event.socket;
  }

  // Polls until `released` is reported.
  int await_release(SimIo& io) {
    for (int polls = 0; polls < 1'000; ++polls) {
      for (const Event& event : poll(io)) {
        if (event.kind == EventKind::released) return event.result;
      }
    }
    ADD_FAILURE() << "never released";
    return -1;
  }

  SocketId move(SimIo& from, SimIo& to, SocketId socket) {
    from.release(socket);
    return to.adopt(await_release(from)).value();
  }

  Faults& faults() { return network_.faults(); }

  static std::string read(SimClient& client) {
    std::vector<std::byte> bytes;
    client.read(bytes);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  Random random_{7};
  SimNetwork network_{random_};
  SimIo a_{{.sockets_max = 2}, network_};
  SimIo b_{{.sockets_max = 2}, network_};
  std::string received_;
};

TEST_F(SimNetworkTest, a_connection_moves_and_its_client_goes_on) {
  SimClient client = a_.connect(0);
  const SocketId old = accept(a_);
  a_.receive_start(old);
  client.write("one ");
  poll(a_);
  client.write("two ");
  const SocketId now = move(a_, b_, old);
  EXPECT_TRUE(poll(b_).empty());  // not before receive_start()
  b_.receive_start(now);
  client.write("three");
  poll(b_);
  EXPECT_EQ(received_, "one two three");
  b_.send(now, bytes_of("answer"));
  EXPECT_EQ(poll_one(b_).kind, EventKind::sent);
  EXPECT_EQ(read(client), "answer");
  EXPECT_EQ(a_.sockets_open(), 0u);
  EXPECT_EQ(b_.link_of(now), client.link_id());
  EXPECT_FALSE(a_.server_closed(client.link_id()));
}

TEST_F(SimNetworkTest, a_connect_goes_to_the_worker_it_was_called_on) {
  SimClient client = b_.connect(0);
  EXPECT_TRUE(poll(a_).empty());
  EXPECT_EQ(poll_one(b_).kind, EventKind::accepted);
  EXPECT_TRUE(client.accepted());
}

TEST_F(SimNetworkTest, no_fault_loses_or_doubles_a_byte) {
  SimClient client = a_.connect(0);
  SimIo* holder = &a_;
  SimIo* other = &b_;
  SocketId socket = accept(a_);
  for (const Fault fault : {Fault::release_late_bytes, Fault::delayed_released, Fault::no_buffer,
                            Fault::split_receive, Fault::multishot_ended, Fault::delayed_receive}) {
    faults().set_rate(fault, 0.4);
  }
  std::string written;
  for (int round = 0; round < 1'000; ++round) {
    const std::string piece = std::to_string(round) + " ";
    client.write(piece);
    written += piece;
    if (random_.chance(0.8)) holder->receive_start(socket);
    if (random_.chance(0.5)) poll(*holder);
    if (random_.chance(0.2)) holder->receive_stop(socket);
    socket = move(*holder, *other, socket);
    std::swap(holder, other);
  }
  faults().calm();
  holder->receive_start(socket);
  for (int polls = 0; polls < 100; ++polls) poll(*holder);
  EXPECT_EQ(received_, written);
  EXPECT_GT(faults().counted(Fault::release_late_bytes), 0u);
  EXPECT_GT(faults().counted(Fault::delayed_released), 0u);
  EXPECT_EQ(network_.released_count(), 0u);
}

TEST_F(SimNetworkTest, the_holder_of_the_connection_sees_an_end) {
  SimClient client = a_.connect(0);
  SocketId socket = accept(a_);
  a_.receive_start(socket);
  client.write("bytes");
  client.shutdown_write();
  ASSERT_EQ(poll(a_).back().kind, EventKind::end_of_stream);
  socket = move(a_, b_, socket);
  EXPECT_EQ(poll_one(b_).kind, EventKind::hung_up);
  b_.receive_start(socket);
  EXPECT_EQ(poll_one(b_).kind, EventKind::end_of_stream);
  EXPECT_EQ(received_, "bytes");
}

TEST_F(SimNetworkTest, the_holder_of_the_connection_sees_a_reset) {
  SimClient client = a_.connect(0);
  SocketId socket = accept(a_);
  a_.receive_start(socket);
  client.reset();
  EXPECT_EQ(poll_one(a_).kind, EventKind::failed);
  socket = move(a_, b_, socket);
  EXPECT_EQ(poll_one(b_).kind, EventKind::failed);
  EXPECT_TRUE(poll(b_).empty());
}

TEST_F(SimNetworkTest, neither_is_reported_during_a_release) {
  for (const bool reset : {false, true}) {
    SimClient client = a_.connect(0);
    const SocketId old = accept(a_);
    a_.receive_start(old);
    poll(a_);
    reset ? client.reset() : client.shutdown_write();
    a_.release(old);
    const Event event = poll_one(a_);
    ASSERT_EQ(event.kind, EventKind::released);
    const SocketId now = b_.adopt(event.result).value();
    EXPECT_EQ(poll_one(b_).kind, reset ? EventKind::failed : EventKind::hung_up);
    b_.close(now);
    poll(b_);
  }
}

TEST_F(SimNetworkTest, a_connection_is_reset_between_two_workers) {
  SimClient client = a_.connect(0);
  const SocketId old = accept(a_);
  a_.receive_start(old);
  poll(a_);
  client.write("lost");
  faults().set_rate(Fault::reset_in_transit, 1);
  move(a_, b_, old);
  EXPECT_EQ(poll_one(b_).kind, EventKind::failed);
  EXPECT_TRUE(client.was_cut_by_network());
  EXPECT_EQ(faults().counted(Fault::reset_in_transit), 1u);
}

TEST_F(SimNetworkTest, close_wins_until_released_is_reported) {
  SimClient client = a_.connect(0);
  const SocketId socket = accept(a_);
  a_.receive_start(socket);
  faults().set_rate(Fault::delayed_released, 1);
  a_.release(socket);
  EXPECT_TRUE(poll(a_).empty());
  a_.close(socket);
  EXPECT_EQ(poll_one(a_).kind, EventKind::closed);
  EXPECT_TRUE(client.end_of_stream());
  EXPECT_EQ(network_.released_count(), 0u);
}

TEST_F(SimNetworkTest, the_caller_keeps_the_descriptor_without_a_free_slot) {
  b_.connect(0);
  b_.connect(0);
  poll(b_);
  ASSERT_EQ(b_.sockets_open(), 2u);
  SimClient client = a_.connect(0);
  a_.release(accept(a_));
  const int fd = await_release(a_);
  EXPECT_EQ(b_.adopt(fd), std::nullopt);
  EXPECT_EQ(network_.released_count(), 1u);
  b_.discard(fd);
  EXPECT_EQ(network_.released_count(), 0u);
  EXPECT_TRUE(client.end_of_stream());
}

TEST_F(SimNetworkTest, a_refused_adoption_leaves_the_descriptor_to_the_caller) {
  [[maybe_unused]] const SimClient client = a_.connect(0);
  a_.release(accept(a_));
  const int fd = await_release(a_);
  faults().set_rate(Fault::adopt_refused, 1);
  EXPECT_EQ(b_.adopt(fd), std::nullopt);
  EXPECT_EQ(faults().counted(Fault::adopt_refused), 1u);
  EXPECT_EQ(network_.released_count(), 1u);
  faults().calm();
  EXPECT_TRUE(b_.adopt(fd).has_value());
}

TEST_F(SimNetworkTest, a_release_lets_accepting_go_on_and_an_adoption_stops_it) {
  a_.connect(0);
  a_.connect(0);
  const std::vector<Event> events = poll(a_);
  ASSERT_EQ(events.size(), 2u);
  SimClient third = a_.connect(0);
  EXPECT_TRUE(poll(a_).empty());
  const SocketId there = move(a_, b_, events[0].socket);
  const SocketId next = accept(a_);
  EXPECT_TRUE(third.accepted());
  EXPECT_EQ(next.index, events[0].socket.index);
  EXPECT_NE(next.generation, events[0].socket.generation);

  move(a_, b_, next);
  SimClient late = b_.connect(0);
  EXPECT_TRUE(poll(b_).empty());
  b_.close(there);
  poll(b_);
  poll(b_);
  EXPECT_TRUE(late.accepted());
}

TEST_F(SimNetworkTest, workers_share_a_clock_and_see_it_when_they_poll) {
  const int64_t start_ns = a_.now().monotonic_ns;
  network_.advance(5);
  EXPECT_EQ(a_.now().monotonic_ns, start_ns);
  poll(a_);
  EXPECT_EQ(a_.now().monotonic_ns, start_ns + 5);
  EXPECT_EQ(b_.now().monotonic_ns, start_ns);
  poll(b_, 7);
  EXPECT_EQ(b_.now().monotonic_ns, start_ns + 12);
  EXPECT_EQ(a_.now().monotonic_ns, start_ns + 5);
  poll(a_);
  EXPECT_EQ(a_.now().monotonic_ns, start_ns + 12);
  EXPECT_EQ(a_.network().clock().monotonic_ns, start_ns + 12);
}

TEST_F(SimNetworkTest, a_wake_is_for_one_worker) {
  b_.wake();
  EXPECT_TRUE(poll(a_).empty());
  EXPECT_EQ(poll_one(b_).kind, EventKind::woken);
  EXPECT_TRUE(poll(b_).empty());
}

TEST_F(SimNetworkTest, a_delayed_wake_is_seen_by_a_later_poll) {
  faults().set_rate(Fault::delayed_wake, 1);
  a_.wake();
  const int64_t before_ns = a_.now().monotonic_ns;
  EXPECT_TRUE(poll(a_, 10).empty());
  EXPECT_EQ(a_.now().monotonic_ns, before_ns + 10);
  EXPECT_TRUE(a_.has_event_pending());
  EXPECT_EQ(faults().counted(Fault::delayed_wake), 1u);
  faults().calm();
  EXPECT_EQ(poll_one(a_).kind, EventKind::woken);
  EXPECT_FALSE(a_.has_event_pending());
}

// A worker and its peers do anything, without faults.
class SimPending : public SimNetworkTest {
 protected:
  void disturb_a_client() {
    if (clients_.size() < 4) clients_.push_back(a_.connect(0));
    SimClient& client = clients_[random_.below(clients_.size())];
    const uint64_t choice = random_.below(40);
    if (choice == 0) client.reset();
    if (choice == 1) client.close();
    if (choice == 2) client.shutdown_write();
    if (choice < 3) std::erase_if(clients_, [&](auto& each) { return &each == &client; });
    if (choice >= 3 && choice < 10) client.write("bytes");
    if (choice >= 10 && choice < 15) read(client);
    if (choice == 15) a_.wake();
  }

  void use_a_socket() {
    if (sockets_.empty()) return;
    const size_t place = random_.below(sockets_.size());
    const SocketId socket = sockets_[place];
    const bool sending = sending_[socket.index];
    const uint64_t choice = random_.below(32);
    if (choice < 4) a_.receive_start(socket);
    if (choice >= 4 && choice < 8) a_.receive_stop(socket);
    if (choice >= 8 && choice < 12 && !sending) {
      a_.send(socket, bytes_of(text_));
      sending_[socket.index] = true;
    }
    const bool closes = choice == 12;
    const bool releases = choice == 13 && !sending;
    if (closes) a_.close(socket);
    if (releases) a_.release(socket);
    if (closes || releases) sockets_.erase(sockets_.begin() + static_cast<ptrdiff_t>(place));
  }

  void note(std::span<const Event> events) {
    for (const Event& event : events) {
      if (event.kind == EventKind::accepted) sockets_.push_back(event.socket);
      if (event.kind == EventKind::sent) sending_[event.socket.index] = false;
      if (event.kind == EventKind::released) a_.discard(event.result);
    }
  }

  const std::string text_ = std::string(100'000, 'x');  // more than a peer's window
  std::vector<SimClient> clients_;
  std::vector<SocketId> sockets_;
  std::map<uint32_t, bool> sending_;
};

TEST_F(SimPending, an_event_is_pending_exactly_when_a_poll_reports_one) {
  constexpr uint32_t steps = 20'000;
  uint32_t pending_count = 0;
  for (uint32_t step = 0; step < steps; ++step) {
    disturb_a_client();
    use_a_socket();
    const bool pending = a_.has_event_pending();
    pending_count += pending ? 1 : 0;
    const std::vector<Event> first = poll(a_);
    note(first);
    const std::vector<Event> second = poll(a_);
    note(second);
    ASSERT_EQ(pending, first.size() + second.size() > 0) << step;
  }
  EXPECT_GT(pending_count, steps / 20);
  EXPECT_LT(pending_count, steps * 19 / 20);
}

// ------------------------------------------------------------------------- seeds

// Two workers and some clients, with faults: returns the events as a text.
class SeededRun {
 public:
  explicit SeededRun(uint64_t seed) : random_(seed) {
    network_.faults().draw();
    for (SimIo* io : ios_) io->accept_start(0);
  }

  std::string play() {
    for (int step = 0; step < 2'000; ++step) {
      const size_t chosen = random_.below(2);
      if (clients_.size() < 8) clients_.push_back(ios_[chosen]->connect(0));
      clients_[random_.below(clients_.size())].write("some bytes");
      std::array<Event, 8> events;
      const size_t count = ios_[chosen]->poll(events, 0);
      log_ += std::to_string(ios_[chosen]->now().monotonic_ns) + ":";
      for (const Event& event : std::span(events).first(count)) {
        log_ += std::to_string(static_cast<int>(event.kind)) + "," +
                std::to_string(event.socket.index) + "," + std::to_string(event.bytes.size()) + " ";
        handle(event, *ios_[chosen], *ios_[1 - chosen]);
      }
    }
    return log_;
  }

  uint32_t moves() const { return moves_; }

 private:
  void handle(const Event& event, SimIo& io, SimIo& other) {
    if (event.kind == EventKind::accepted) io.receive_start(event.socket);
    if (event.kind == EventKind::received && random_.chance(0.2)) {
      // The next bytes may come after it was asked for.
      if (!leaving_.insert(io.link_of(event.socket)).second) return;
      io.release(event.socket);
    }
    if (event.kind != EventKind::released) return;
    ++moves_;
    leaving_.erase(static_cast<uint32_t>(event.result));
    const auto adopted = other.adopt(event.result);
    if (!adopted) return other.discard(event.result);
    other.receive_start(*adopted);
    other.wake();
  }

  Random random_;
  SimNetwork network_{random_};
  SimIo a_{{.turn_ns_max = 1'000}, network_};
  SimIo b_{{.turn_ns_max = 1'000}, network_};
  std::array<SimIo*, 2> ios_{&a_, &b_};
  std::vector<SimClient> clients_;
  std::set<uint32_t> leaving_;  // links
  std::string log_;
  uint32_t moves_ = 0;
};

TEST(SimNetworkSeed, plays_the_same_run_again) {
  SeededRun one(1);
  SeededRun again(1);
  SeededRun other(2);
  const std::string log = one.play();
  EXPECT_EQ(log, again.play());
  EXPECT_NE(log, other.play());
  EXPECT_GT(one.moves(), 10u);
}

using SimNetworkDeathTest = SimNetworkTest;

TEST_F(SimNetworkDeathTest, a_descriptor_is_adopted_once) {
  a_.connect(0);
  a_.release(accept(a_));
  const int fd = await_release(a_);
  EXPECT_TRUE(b_.adopt(fd).has_value());
  EXPECT_DEATH(b_.adopt(fd), "is_released");
  EXPECT_DEATH(a_.discard(fd), "is_released");
}

TEST_F(SimNetworkDeathTest, only_close_may_follow_a_release) {
  a_.connect(0);
  const SocketId socket = accept(a_);
  a_.release(socket);
  EXPECT_DEATH(a_.receive_start(socket), "releasing");
  EXPECT_DEATH(a_.release(socket), "releasing");
  a_.close(socket);
}

TEST_F(SimNetworkDeathTest, a_send_in_flight_or_a_finished_side_is_not_released) {
  a_.connect(0);
  const SocketId socket = accept(a_);
  a_.send(socket, bytes_of("answer"));
  EXPECT_DEATH(a_.release(socket), "in_flight");
  poll(a_);
  a_.send_finish(socket);
  EXPECT_DEATH(a_.release(socket), "send_finished");
}

}  // namespace
}  // namespace sluice::io
