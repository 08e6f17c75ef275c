// The simulated Io keeps the contract of io.hpp, and its faults have the effects of their names.
// One socket or two, polled by hand; a test that is about a fault switches it on.
#include "io/sim/sim_io.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <string>
#include <vector>

namespace sluice::io {
namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class SimIoTest : public testing::Test {
 protected:
  explicit SimIoTest(SimOptions options = {}) : io_(options, random_) { io_.accept_start(0); }

  // The events of one poll; received bytes are copied, because they end with the next poll.
  std::vector<Event> poll(int64_t wait_ns = 0) {
    std::vector<Event> events(64);
    events.resize(io_.poll(events, wait_ns));
    for (const Event& event : events) {
      if (event.kind == EventKind::received) received_[event.socket.index] += text_of(event.bytes);
    }
    return events;
  }

  // The only event of the next poll.
  Event poll_one() {
    const std::vector<Event> events = poll();
    EXPECT_EQ(events.size(), 1u);
    return events.empty() ? Event{} : events.front();
  }

  SocketId accept() {
    const Event event = poll_one();
    EXPECT_EQ(event.kind, EventKind::accepted);
    return event.socket;
  }

  std::string read(SimClient& client) {
    std::vector<std::byte> bytes;
    client.read(bytes);
    return text_of(bytes);
  }

  static std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
  }

  Random random_{7};
  SimIo io_;
  std::map<uint32_t, std::string> received_;  // by socket index
};

TEST_F(SimIoTest, nothing_is_received_before_receive_start) {
  SimClient client = io_.connect(0);
  client.write("early");
  const SocketId socket = accept();
  EXPECT_TRUE(poll().empty());
  io_.receive_start(socket);
  EXPECT_EQ(poll_one().kind, EventKind::received);
  EXPECT_EQ(received_[socket.index], "early");
}

TEST_F(SimIoTest, received_bytes_begin_at_a_word) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.receive_start(socket);
  for (int round = 0; round < 5; ++round) {
    client.write("odd");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(poll_one().bytes.data()) % 8, 0u);
  }
}

TEST_F(SimIoTest, a_client_knows_its_undelivered_bytes_and_the_server_its_name) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  EXPECT_EQ(io_.peer(socket), "sim:" + std::to_string(client.link_id()));
  client.write("hello");
  EXPECT_EQ(client.undelivered_bytes(), 5u);
  io_.receive_start(socket);
  poll();
  EXPECT_EQ(client.undelivered_bytes(), 0u);
}

TEST_F(SimIoTest, end_of_stream_comes_once_after_the_bytes) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.receive_start(socket);
  client.write("last words");
  client.shutdown_write();
  const std::vector<Event> events = poll();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, EventKind::received);
  EXPECT_EQ(events[1].kind, EventKind::end_of_stream);
  EXPECT_TRUE(poll().empty());
}

TEST_F(SimIoTest, a_stopped_socket_reports_a_hang_up_and_its_end_when_it_is_read) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.receive_start(socket);
  poll();
  io_.receive_stop(socket);
  poll();
  client.write("unread");
  client.shutdown_write();
  EXPECT_EQ(poll_one().kind, EventKind::hung_up);
  io_.receive_start(socket);
  const std::vector<Event> events = poll();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, EventKind::received);
  EXPECT_EQ(events[1].kind, EventKind::end_of_stream);
  EXPECT_TRUE(poll().empty());
}

TEST_F(SimIoTest, stop_and_start_lose_no_byte) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.faults().set_rate(Fault::late_bytes, 0.5);
  io_.receive_start(socket);
  std::string written;
  for (int round = 0; round < 100; ++round) {
    const std::string piece = std::to_string(round);
    client.write(piece);
    written += piece;
    (round % 2 == 0) ? io_.receive_stop(socket) : io_.receive_start(socket);
    poll();
  }
  poll();
  EXPECT_EQ(received_[socket.index], written);
  EXPECT_GT(io_.faults().counted(Fault::late_bytes), 0u);
}

TEST_F(SimIoTest, send_arrives_and_is_reported) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.send(socket, bytes_of("hello"));
  const Event event = poll_one();
  EXPECT_EQ(event.kind, EventKind::sent);
  EXPECT_EQ(event.result, 5);
  EXPECT_EQ(read(client), "hello");
}

TEST_F(SimIoTest, short_sends_arrive_whole_before_they_are_reported) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.faults().set_rate(Fault::short_send, 1);
  const std::string text(1'000, 'x');
  io_.send(socket, bytes_of(text));
  std::string arrived;
  while (true) {
    const std::vector<Event> events = poll();
    arrived += read(client);
    if (!events.empty()) break;
    EXPECT_LT(arrived.size(), text.size());
  }
  EXPECT_EQ(arrived, text);
  EXPECT_GT(io_.faults().counted(Fault::short_send), 0u);
}

TEST_F(SimIoTest, send_finish_is_the_peers_end_of_stream) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.send(socket, bytes_of("bye"));
  poll();
  io_.send_finish(socket);
  EXPECT_FALSE(client.end_of_stream());  // not before everything was read
  read(client);
  EXPECT_TRUE(client.end_of_stream());
}

TEST_F(SimIoTest, a_reset_fails_the_send_and_the_socket) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.receive_start(socket);
  io_.send(socket, bytes_of("lost"));
  client.reset();
  std::map<EventKind, int32_t> results;
  for (const Event& event : poll()) results[event.kind] = event.result;
  EXPECT_EQ(results.size(), 2u);
  EXPECT_EQ(results[EventKind::failed], -ECONNRESET);
  EXPECT_EQ(results[EventKind::sent], -ECONNRESET);
  EXPECT_TRUE(poll().empty());
}

TEST_F(SimIoTest, closed_comes_last_and_frees_the_slot) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.receive_start(socket);
  io_.send(socket, bytes_of("unsent"));
  client.write("undelivered");
  io_.close(socket);
  const std::vector<Event> events = poll();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, EventKind::sent);
  EXPECT_LT(events[0].result, 0);
  EXPECT_EQ(events[1].kind, EventKind::closed);
  EXPECT_EQ(io_.sockets_open(), 0u);
  EXPECT_TRUE(client.was_reset());  // its bytes were not read

  io_.connect(0);
  const SocketId second = accept();
  EXPECT_EQ(second.index, socket.index);
  EXPECT_NE(second.generation, socket.generation);
}

TEST_F(SimIoTest, every_split_of_a_message_is_delivered_whole) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.receive_start(socket);
  io_.faults().set_rate(Fault::split_receive, 0.9);
  std::string written;
  for (int round = 0; round < 200; ++round) {
    client.write("0123456789abcdef");
    written += "0123456789abcdef";
    poll();
  }
  io_.faults().calm();
  poll();
  EXPECT_EQ(received_[socket.index], written);
}

TEST_F(SimIoTest, an_overflow_delays_events_and_ends_receives_but_loses_nothing) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.receive_start(socket);
  poll();
  for (int waiting = 0; waiting < 10; ++waiting) io_.connect(0);
  client.write("late");
  io_.faults().set_rate(Fault::overflow, 1);
  size_t events = 0;
  for (int polls = 0; polls < 20; ++polls) {
    const size_t count = poll().size();
    EXPECT_LE(count, 3u);
    events += count;
  }
  EXPECT_EQ(events, 11u);
  EXPECT_EQ(received_[socket.index], "late");
  EXPECT_GT(io_.statistics().rearms, 0u);
  EXPECT_EQ(io_.backlog_count(), 0u);
}

TEST_F(SimIoTest, bytes_wait_while_buffers_are_gone) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.receive_start(socket);
  poll();
  io_.faults().set_rate(Fault::buffers_gone, 1);
  poll();
  io_.faults().calm();
  client.write("kept");
  int polls = 0;
  while (received_[socket.index].empty() && polls < 1'000) {
    poll();
    ++polls;
  }
  EXPECT_GT(polls, 1);
  EXPECT_EQ(received_[socket.index], "kept");
  EXPECT_GT(io_.statistics().buffers_exhausted, 0u);
}

// The simulated kernel re-arms; only statistics show it.
TEST_F(SimIoTest, ended_multishots_and_empty_buffer_rings_lose_no_byte) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.receive_start(socket);
  io_.faults().set_rate(Fault::multishot_ended, 0.5);
  io_.faults().set_rate(Fault::no_buffer, 0.5);
  std::string written;
  for (int round = 0; round < 100; ++round) {
    client.write(std::to_string(round));
    written += std::to_string(round);
    poll();
  }
  io_.faults().calm();
  poll();
  poll();
  EXPECT_EQ(received_[socket.index], written);
  EXPECT_GT(io_.statistics().rearms, 0u);
  EXPECT_GT(io_.statistics().buffers_exhausted, 0u);
}

TEST_F(SimIoTest, a_failed_accept_is_reported_and_tried_again) {
  io_.faults().set_rate(Fault::accept_failed, 1);
  SimClient client = io_.connect(0);
  const Event event = poll_one();
  EXPECT_EQ(event.kind, EventKind::accept_failed);
  EXPECT_EQ(event.result, -EMFILE);
  io_.faults().calm();
  EXPECT_EQ(poll_one().kind, EventKind::accepted);
  EXPECT_TRUE(client.accepted());
}

TEST_F(SimIoTest, accept_finish_accepts_queued_connections_then_closes) {
  io_.connect(0);
  io_.connect(0);
  io_.accept_finish(0);
  const std::vector<Event> events = poll();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, EventKind::accepted);
  EXPECT_EQ(events[1].kind, EventKind::accepted);
  EXPECT_EQ(events[2].kind, EventKind::listener_closed);
  EXPECT_TRUE(io_.connect(0).refused());
}

TEST_F(SimIoTest, reports_a_wake_once) {
  io_.wake();
  io_.wake();
  EXPECT_EQ(poll_one().kind, EventKind::woken);
  EXPECT_TRUE(poll().empty());
}

TEST_F(SimIoTest, the_clock_moves_when_advanced_and_when_a_poll_waits) {
  const base::Now start = io_.now();
  io_.advance(5);
  EXPECT_EQ(io_.now().monotonic_ns, start.monotonic_ns);
  poll();
  EXPECT_EQ(io_.now().monotonic_ns, start.monotonic_ns + 5);
  poll(7);
  EXPECT_EQ(io_.now().monotonic_ns, start.monotonic_ns + 12);
  EXPECT_EQ(io_.now().wall_ns, start.wall_ns + 12);
}

class SmallWindow : public SimIoTest {
 protected:
  SmallWindow() : SimIoTest({.sockets_max = 1, .peer_window_bytes = 4}) {}
};

TEST_F(SmallWindow, a_send_waits_for_a_peer_that_does_not_read) {
  SimClient client = io_.connect(0);
  const SocketId socket = accept();
  io_.send(socket, bytes_of("123456"));
  EXPECT_TRUE(poll().empty());
  EXPECT_TRUE(poll().empty());
  EXPECT_GT(io_.faults().counted(Fault::peer_window_full), 0u);
  EXPECT_EQ(read(client), "1234");
  EXPECT_EQ(poll_one().kind, EventKind::sent);
  EXPECT_EQ(read(client), "56");
}

TEST_F(SmallWindow, accepting_pauses_while_all_slots_are_in_use) {
  io_.connect(0);
  const SocketId first = accept();
  SimClient second = io_.connect(0);
  EXPECT_TRUE(poll().empty());
  io_.close(first);
  poll();
  poll();
  EXPECT_TRUE(second.accepted());
}

using SimIoDeathTest = SimIoTest;

TEST_F(SimIoDeathTest, a_second_send_in_flight_is_a_bug) {
  io_.connect(0);
  const SocketId socket = accept();
  io_.send(socket, bytes_of("one"));
  EXPECT_DEATH(io_.send(socket, bytes_of("two")), "in_flight");
}

TEST_F(SimIoDeathTest, changing_the_bytes_of_a_send_in_flight_is_a_bug) {
  io_.connect(0);
  const SocketId socket = accept();
  io_.faults().set_rate(Fault::delayed_sent, 1);
  std::string text = "as it was";
  io_.send(socket, bytes_of(text));
  poll();
  text[0] = 'w';
  io_.faults().calm();
  EXPECT_DEATH(poll(), "checksum");
}

TEST_F(SimIoDeathTest, using_a_closed_socket_is_a_bug) {
  io_.connect(0);
  const SocketId socket = accept();
  io_.close(socket);
  EXPECT_DEATH(io_.receive_start(socket), "closing");
  poll();
  EXPECT_DEATH(io_.send(socket, bytes_of("late")), "open");
}

}  // namespace
}  // namespace sluice::io
