// The promises of both kernel back ends about the bytes of a socket and its end (io/io.hpp), over
// real sockets on loopback.
#include "io_fixture.hpp"

namespace sluice::io::test {
namespace {

template <typename Backend>
class IoStream : public IoTest<Backend> {};
TYPED_TEST_SUITE(IoStream, Backends, BackendNames);

TYPED_TEST(IoStream, reports_accept_receive_send_close_in_order) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  client.write("hello");
  ASSERT_TRUE(this->until([&] { return this->reported(socket).received == "hello"; }));

  const std::string answer = "world";
  this->io_->send(socket, bytes_of(answer));
  ASSERT_TRUE(this->until([&] { return this->reported(socket).sents == 1; }));
  EXPECT_EQ(this->reported(socket).sent_result, 5);

  this->io_->close(socket);
  ASSERT_TRUE(this->until([&] { return this->reported(socket).closes == 1; }));
  std::string got;
  EXPECT_EQ(this->read_to_end(client, got), 0);
  EXPECT_EQ(got, answer);
  this->settle();
  EXPECT_FALSE(this->reported(socket).after_closed);
}

TYPED_TEST(IoStream, delivers_nothing_before_receive_start) {
  this->build();
  Client client(this->port_);
  client.write("early");
  const SocketId socket = this->accept_one();
  this->settle();
  EXPECT_EQ(this->reported(socket).receives, 0u);
  this->io_->receive_start(socket);
  EXPECT_TRUE(this->until([&] { return this->reported(socket).received == "early"; }));
}

TYPED_TEST(IoStream, delivers_any_amount_in_order) {
  this->build();
  for (const size_t bytes : {size_t{1}, size_t{7}, size_t{4096}, size_t{32'768}, size_t{32'769},
                             size_t{1} << 20, (size_t{4} << 20) + 3}) {
    Client client(this->port_);
    const SocketId socket = this->accept_one();
    this->io_->receive_start(socket);
    const std::string text = pattern(bytes);
    ASSERT_TRUE(this->write_all(client, text)) << bytes;
    ASSERT_TRUE(this->until([&] { return this->reported(socket).received.size() >= bytes; }))
        << bytes;
    EXPECT_TRUE(this->reported(socket).received == text) << bytes;
    this->close_and_wait(socket);
  }
}

TYPED_TEST(IoStream, reports_the_end_once_after_the_last_bytes) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  client.write("last");
  client.finish();
  ASSERT_TRUE(this->until([&] { return this->reported(socket).ends == 1; }));
  EXPECT_EQ(this->reported(socket).received, "last");
  this->io_->receive_start(socket);
  this->settle();
  this->io_->receive_stop(socket);
  this->settle();
  EXPECT_EQ(this->reported(socket).ends, 1u);
  EXPECT_EQ(this->reported(socket).failures, 0u);
}

TYPED_TEST(IoStream, sends_after_the_peer_has_finished) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  client.finish();
  ASSERT_TRUE(this->until([&] { return this->reported(socket).ends == 1; }));
  const std::string answer = pattern(100'000);
  this->io_->send(socket, bytes_of(answer));
  std::string got;
  ASSERT_TRUE(this->until([&] {
    client.read(got);
    return got.size() >= answer.size();
  }));
  EXPECT_TRUE(got == answer);
}

TYPED_TEST(IoStream, reports_a_hang_up_once_while_stopped) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  client.write("one");
  ASSERT_TRUE(this->until([&] { return this->reported(socket).received == "one"; }));
  this->io_->receive_stop(socket);
  this->settle();
  client.finish();
  ASSERT_TRUE(this->until([&] { return this->reported(socket).hang_ups == 1; }, 2'000));
  this->settle();
  EXPECT_EQ(this->reported(socket).hang_ups, 1u);
  EXPECT_EQ(this->reported(socket).ends, 0u);
}

TYPED_TEST(IoStream, reports_the_hang_up_of_a_socket_that_never_received) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  client.close();
  ASSERT_TRUE(this->until([&] { return this->reported(socket).hang_ups == 1; }, 2'000));
}

TYPED_TEST(IoStream, delivers_the_bytes_before_a_hang_up_and_then_the_end) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_stop(socket);
  client.write("unread");
  client.finish();
  ASSERT_TRUE(this->until([&] { return this->reported(socket).hang_ups == 1; }, 2'000));
  EXPECT_EQ(this->reported(socket).receives, 0u);
  this->io_->receive_start(socket);
  ASSERT_TRUE(this->until([&] { return this->reported(socket).ends == 1; }, 2'000));
  EXPECT_EQ(this->reported(socket).received, "unread");
  this->settle();
  EXPECT_EQ(this->reported(socket).ends, 1u);
  EXPECT_EQ(this->reported(socket).hang_ups, 1u);
}

// A hang-up that epoll reports for ever, or a poll that is armed anew each time, would spin.
TYPED_TEST(IoStream, sleeps_after_a_reported_hang_up) {
  this->build();
  Client finished(this->port_);
  const SocketId half = this->accept_one();
  Client gone(this->port_);
  const SocketId full = this->accept_one();
  finished.finish();
  gone.finish();
  ASSERT_TRUE(this->until(
      [&] { return this->reported(half).hang_ups + this->reported(full).hang_ups == 2; }));
  this->io_->send_finish(full);  // now both directions are over
  this->settle();
  const uint64_t before = this->io_->statistics().enters;
  const auto begin = std::chrono::steady_clock::now();
  this->poll_once(200 * base::ns_per_ms);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(190));
  EXPECT_LE(this->io_->statistics().enters - before, 5u);
}

TYPED_TEST(IoStream, reports_a_reset_once_while_receiving) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  this->settle();
  client.reset();
  ASSERT_TRUE(this->until([&] { return this->reported(socket).failures == 1; }, 2'000));
  EXPECT_EQ(this->reported(socket).failure, -ECONNRESET);
  this->settle();
  EXPECT_EQ(this->reported(socket).failures, 1u);
  EXPECT_EQ(this->reported(socket).ends, 0u);
  this->close_and_wait(socket);
}

TYPED_TEST(IoStream, reports_a_reset_once_while_stopped) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  this->poll_once();
  this->io_->receive_stop(socket);
  this->settle();
  client.reset();
  ASSERT_TRUE(this->until([&] { return this->reported(socket).failures == 1; }, 2'000));
  EXPECT_EQ(this->reported(socket).failure, -ECONNRESET);
  this->settle();
  EXPECT_EQ(this->reported(socket).failures, 1u);
  EXPECT_EQ(this->reported(socket).ends, 0u);
  this->close_and_wait(socket);
}

// A half-close may be followed by a reset: then no peer is left to wait for an answer.
TYPED_TEST(IoStream, reports_a_reset_after_the_end) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  client.finish();
  ASSERT_TRUE(this->until([&] { return this->reported(socket).ends == 1; }));
  this->settle();
  client.reset();
  ASSERT_TRUE(this->until([&] { return this->reported(socket).failures == 1; }, 2'000));
  EXPECT_EQ(this->reported(socket).ends, 1u);
}

TYPED_TEST(IoStream, ends_a_send_to_a_peer_that_reset) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  const std::string text = pattern(size_t{16} << 20);
  this->io_->send(socket, bytes_of(text));
  this->settle();
  EXPECT_EQ(this->reported(socket).sents, 0u);
  client.reset();
  ASSERT_TRUE(this->until(
      [&] { return this->reported(socket).sents == 1 && this->reported(socket).failures == 1; },
      2'000));
  EXPECT_LT(this->reported(socket).sent_result, 0);
  EXPECT_GT(this->reported(socket).untaken_bytes, 0u);
  EXPECT_LT(this->reported(socket).untaken_bytes, text.size());
  EXPECT_EQ(this->reported(socket).failure, -ECONNRESET);
  EXPECT_EQ(this->reported(socket).ends, 0u);
  this->close_and_wait(socket);
  EXPECT_EQ(this->reported(socket).sents, 1u);
}

// Bytes reported as untaken never reach the peer; io_uring may not know, and reports fewer.
TYPED_TEST(IoStream, reports_the_untaken_bytes_of_a_closed_send) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  const std::string text = pattern(size_t{16} << 20);
  this->io_->send(socket, bytes_of(text));
  std::string got;
  while (got.size() < 100'000) {
    this->poll_once();
    client.read(got);
  }
  this->close_and_wait(socket);
  ASSERT_EQ(this->reported(socket).sents, 1u);
  EXPECT_LT(this->reported(socket).sent_result, 0);
  this->read_to_end(client, got);
  EXPECT_LT(got.size(), text.size());
  EXPECT_LE(got.size(), text.size() - this->reported(socket).untaken_bytes);
  EXPECT_TRUE(text.starts_with(got));
}

TYPED_TEST(IoStream, a_send_to_a_peer_that_is_gone_leaves_all_of_it) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  client.reset();
  this->settle();
  this->io_->send(socket, bytes_of("never to be read."));
  ASSERT_TRUE(this->until([&] { return this->reported(socket).sents == 1; }, 2'000));
  EXPECT_LT(this->reported(socket).sent_result, 0);
  EXPECT_EQ(this->reported(socket).untaken_bytes, 17u);
}

TYPED_TEST(IoStream, completes_a_large_send_to_a_slow_reader_once) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  const std::string text = pattern(size_t{16} << 20);
  this->io_->send(socket, bytes_of(text));
  std::string got;
  uint32_t polls = 0;
  ASSERT_TRUE(this->until([&] {
    client.read(got, 256 * 1024);
    if (this->reported(socket).sents == 0) ++polls;
    return this->reported(socket).sents > 0 && got.size() >= text.size();
  }));
  EXPECT_GT(polls, 16u);
  EXPECT_EQ(this->reported(socket).sent_result, static_cast<int32_t>(text.size()));
  EXPECT_TRUE(got == text);
  this->settle();
  EXPECT_EQ(this->reported(socket).sents, 1u);
}

TYPED_TEST(IoStream, receives_while_a_send_is_stuck) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  const std::string text = pattern(size_t{16} << 20);
  this->io_->send(socket, bytes_of(text));
  this->settle();
  client.write("still here");
  EXPECT_TRUE(this->until([&] { return this->reported(socket).received == "still here"; }));
  EXPECT_EQ(this->reported(socket).sents, 0u);
}

TYPED_TEST(IoStream, send_finish_shows_the_peer_the_end_and_keeps_receiving) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  this->io_->send_finish(socket);
  std::string got;
  EXPECT_EQ(this->read_to_end(client, got), 0);
  client.write("goodbye");
  EXPECT_TRUE(this->until([&] { return this->reported(socket).received == "goodbye"; }));
}

TYPED_TEST(IoStream, bytes_after_receive_stop_wait_in_the_kernel) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  this->settle();
  this->io_->receive_stop(socket);
  this->settle();
  client.write("later");
  this->settle();
  EXPECT_EQ(this->reported(socket).receives, 0u);
  this->io_->receive_start(socket);
  EXPECT_TRUE(this->until([&] { return this->reported(socket).received == "later"; }));
}

TYPED_TEST(IoStream, receive_stop_stops) {
  this->build({.receive_buffers = 4, .receive_buffer_bytes = 4096});
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  client.write("first");
  ASSERT_TRUE(this->until([&] { return this->reported(socket).received == "first"; }));
  const std::string text = pattern(200'000);
  size_t written = client.write(text);
  this->io_->receive_stop(socket);
  this->settle();
  const size_t bound = 5 + size_t{2} * 4 * 4096;
  EXPECT_LE(this->reported(socket).received.size(), bound);
  const size_t stopped_at = this->reported(socket).received.size();
  for (int each = 0; each < 10; ++each) {
    written += client.write(std::string_view(text).substr(written));
    this->settle(2);
  }
  EXPECT_EQ(this->reported(socket).received.size(), stopped_at);

  this->io_->receive_start(socket);
  ASSERT_TRUE(this->write_all(client, std::string_view(text).substr(written)));
  ASSERT_TRUE(
      this->until([&] { return this->reported(socket).received.size() >= text.size() + 5; }));
  EXPECT_TRUE(this->reported(socket).received == "first" + text);
}

// A stop while bytes stream in: at most the receive buffers of one worker, twice, still come.
TYPED_TEST(IoStream, receive_stop_in_full_flow_keeps_the_bound) {
  constexpr size_t pool_bytes = size_t{8} * 4096;
  this->build({.receive_buffers = 8, .receive_buffer_bytes = 4096});
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  const std::string text = pattern(size_t{1} << 20);
  size_t written = 0;
  for (int round = 0; round < 200 && written < text.size(); ++round) {
    this->io_->receive_start(socket);
    written += client.write(std::string_view(text).substr(written));
    this->poll_once();
    const size_t before = this->reported(socket).received.size();
    this->io_->receive_stop(socket);
    this->settle(3);
    EXPECT_LE(this->reported(socket).received.size() - before, pool_bytes);
  }
  EXPECT_EQ(written, text.size());
  this->io_->receive_start(socket);
  ASSERT_TRUE(this->until([&] { return this->reported(socket).received.size() >= text.size(); }));
  EXPECT_TRUE(this->reported(socket).received == text);
}

TYPED_TEST(IoStream, start_and_stop_in_any_pattern_lose_nothing) {
  this->build({.receive_buffers = 8, .receive_buffer_bytes = 256});
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  const std::string text = pattern(300'000);
  size_t written = 0;
  uint32_t state = 12345;
  for (int round = 0; round < 3'000; ++round) {
    state = state * 1664525u + 1013904223u;
    const uint32_t choice = state >> 28;
    if (choice & 1) this->io_->receive_start(socket);
    if (choice & 2) this->io_->receive_stop(socket);
    if (choice & 4) this->io_->receive_start(socket);
    if (choice & 8) written += client.write(std::string_view(text).substr(written, 500));
    if ((state >> 20 & 3) != 0) this->poll_once(0);
  }
  this->io_->receive_start(socket);
  ASSERT_TRUE(this->write_all(client, std::string_view(text).substr(written)));
  client.finish();
  ASSERT_TRUE(this->until([&] { return this->reported(socket).ends == 1; }));
  EXPECT_TRUE(this->reported(socket).received == text);
}

// The end comes at any moment of a start and stop pattern, and is always reported, once.
TYPED_TEST(IoStream, start_and_stop_never_hide_the_end) {
  this->build(this->small());
  for (uint32_t round = 0; round < 64; ++round) {
    Client client(this->port_);
    const SocketId socket = this->accept_one();
    for (uint32_t step = 0; step < 6; ++step) {
      if (step == round % 6) client.finish();
      (round >> step & 1) != 0 ? this->io_->receive_start(socket) : this->io_->receive_stop(socket);
      if (round % 3 != 0) this->poll_once(0);
    }
    // Whatever the last call was, the peer's end shows; and reading on shows it is the end.
    ASSERT_TRUE(this->until(
        [&] { return this->reported(socket).ends + this->reported(socket).hang_ups > 0; }, 2'000))
        << round;
    this->io_->receive_start(socket);
    ASSERT_TRUE(this->until([&] { return this->reported(socket).ends > 0; }, 2'000)) << round;
    this->settle(2);
    EXPECT_EQ(this->reported(socket).ends, 1u) << round;
    EXPECT_LE(this->reported(socket).hang_ups, 1u) << round;
    this->close_and_wait(socket);
  }
}

// Two buffers of 64 bytes for 20 sockets: each runs out of buffers, and continues.
TYPED_TEST(IoStream, few_tiny_buffers_lose_nothing_and_stall_no_socket) {
  this->build({.sockets_max = 32, .receive_buffers = 2, .receive_buffer_bytes = 64});
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<SocketId> sockets;
  std::vector<std::string> texts;
  for (uint32_t each = 0; each < 20; ++each) {
    clients.push_back(std::make_unique<Client>(this->port_));
    sockets.push_back(this->accept_one());
    texts.push_back(pattern(1'000 + 37 * each, each));
    this->io_->receive_start(sockets.back());
  }
  for (uint32_t each = 0; each < 20; ++each) clients[each]->write(texts[each]);
  for (uint32_t each = 0; each < 20; ++each) {
    ASSERT_TRUE(this->until([&] {
      return this->reported(sockets[each]).received.size() >= texts[each].size();
    })) << each;
  }
  for (uint32_t each = 0; each < 20; ++each) {
    EXPECT_TRUE(this->reported(sockets[each]).received == texts[each]) << each;
  }
  if (this->io_->name() == "uring") {
    EXPECT_GT(this->io_->statistics().buffers_exhausted, 0u);
  }
  // And all of them still receive.
  for (uint32_t each = 0; each < 20; ++each) clients[each]->write("x");
  for (uint32_t each = 0; each < 20; ++each) {
    EXPECT_TRUE(this->until(
        [&] { return this->reported(sockets[each]).received.size() == texts[each].size() + 1; }));
  }
}

TYPED_TEST(IoStream, a_greedy_socket_does_not_starve_another) {
  this->build({.receive_buffers = 8, .receive_buffer_bytes = 4096});
  Client greedy(this->port_);
  const SocketId greedy_socket = this->accept_one();
  Client modest(this->port_);
  const SocketId modest_socket = this->accept_one();
  this->io_->receive_start(greedy_socket);
  this->io_->receive_start(modest_socket);
  const std::string flood = pattern(1 << 20);
  for (uint32_t round = 1; round <= 50; ++round) {
    greedy.write(flood);
    modest.write("x");
    bool seen = false;
    for (int polls = 0; polls < 40 && !seen; ++polls) {
      greedy.write(flood);
      this->poll_once();
      seen = this->reported(modest_socket).received.size() == round;
    }
    ASSERT_TRUE(seen) << round;
  }
}

// Eight buffers for 20 sockets with 16 buffers' worth of bytes each: nobody gets all of its bytes
// before others get any.
TYPED_TEST(IoStream, sockets_that_wait_for_buffers_get_one_each) {
  constexpr uint32_t buffer_bytes = 4096;
  constexpr uint32_t sockets_count = 20;
  this->build({.sockets_max = 32, .receive_buffers = 8, .receive_buffer_bytes = buffer_bytes});
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<SocketId> sockets;
  for (uint32_t each = 0; each < sockets_count; ++each) {
    clients.push_back(std::make_unique<Client>(this->port_));
    sockets.push_back(this->accept_one());
    clients.back()->write(pattern(16 * buffer_bytes, each));
  }
  for (const SocketId socket : sockets) this->io_->receive_start(socket);
  size_t received = 0;
  ASSERT_TRUE(this->until([&] {
    received = 0;
    for (const SocketId socket : sockets) received += this->reported(socket).received.size();
    return received >= 3 * sockets_count * buffer_bytes;
  }));
  for (const SocketId socket : sockets) {
    EXPECT_GT(this->reported(socket).received.size(), 0u) << socket.index;
  }
}

TYPED_TEST(IoStream, receives_sparingly_one_buffer_a_socket_and_poll) {
  this->build({.receive_buffers = 8, .receive_buffer_bytes = 4096});
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_sparingly(true);
  const std::string text = pattern(100'000);
  client.write(text);
  this->io_->receive_start(socket);
  uint32_t receives = 0;
  ASSERT_TRUE(this->until([&] {
    const Reports& reported = this->reported(socket);
    EXPECT_LE(reported.receives, receives + 1);
    receives = reported.receives;
    return reported.received == text;
  }));
}

TYPED_TEST(IoStream, receives_now_what_has_arrived_at_a_stopped_socket) {
  constexpr size_t bytes_max = 10'000;
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  this->poll_once();
  this->io_->receive_stop(socket);
  const std::string text = pattern(100'000);
  std::string taken;
  size_t written = 0;
  ASSERT_TRUE(this->until([&] {
    written += client.write(std::string_view(text).substr(written));
    const auto bytes = this->io_->receive_now(socket, bytes_max);
    if (!bytes) return false;  // the receive that was stopped has not ended
    EXPECT_LE(bytes->size(), bytes_max);
    taken.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    return this->reported(socket).received.size() + taken.size() == text.size();
  }));
  EXPECT_TRUE(this->reported(socket).received + taken == text);
  EXPECT_TRUE(this->io_->receive_now(socket, bytes_max)->empty());

  client.write("x");
  client.finish();
  this->io_->receive_start(socket);
  EXPECT_TRUE(this->until([&] { return this->reported(socket).ends == 1; }));
  EXPECT_EQ(this->reported(socket).received.size() + taken.size(), text.size() + 1);
}

TYPED_TEST(IoStream, reports_the_end_that_receive_now_came_to) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  client.write("last");
  client.finish();
  std::string taken;
  ASSERT_TRUE(this->until([&] {
    const auto bytes = this->io_->receive_now(socket, 100);
    taken.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    return taken == "last";
  }));
  EXPECT_TRUE(this->io_->receive_now(socket, 100)->empty());
  this->io_->receive_start(socket);
  EXPECT_TRUE(this->until([&] { return this->reported(socket).ends == 1; }));
}

TYPED_TEST(IoStream, reports_the_failure_that_receive_now_came_to) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  client.reset();
  ASSERT_TRUE(this->until([&] {
    std::ignore = this->io_->receive_now(socket, 100);
    return this->reported(socket).failures == 1;
  }));
}

// A completion queue of 8: it overflows, which ends multishot receives on success.
TEST(UringStream, an_overflowing_completion_queue_loses_nothing) {
  struct Fixture : IoTest<UringIo> {
    void TestBody() override {
      build(
          {.sockets_max = 8, .receive_buffers = 64, .receive_buffer_bytes = 64, .completions = 8});
      std::vector<std::unique_ptr<Client>> clients;
      std::vector<SocketId> sockets;
      std::vector<std::string> texts;
      for (uint32_t each = 0; each < 4; ++each) {
        clients.push_back(std::make_unique<Client>(port_));
        sockets.push_back(accept_one());
        texts.push_back(pattern(64 * 30 + each, each));
        io_->receive_start(sockets[each]);
      }
      settle();
      for (uint32_t each = 0; each < 4; ++each) clients[each]->write(texts[each]);
      for (uint32_t each = 0; each < 4; ++each) {
        ASSERT_TRUE(until([&] {
          return reported(sockets[each]).received.size() >= texts[each].size();
        })) << each;
        EXPECT_TRUE(reported(sockets[each]).received == texts[each]) << each;
      }
      EXPECT_GT(io_->statistics().rearms, 0u);
      for (uint32_t each = 0; each < 4; ++each) {
        clients[each]->finish();
        EXPECT_TRUE(until([&] { return reported(sockets[each]).ends == 1; }));
      }
    }
  } fixture;
  fixture.TestBody();
}

TYPED_TEST(IoStream, a_small_array_of_events_loses_nothing) {
  this->build(this->small());
  this->events_max_ = 1;
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<SocketId> sockets;
  for (uint32_t each = 0; each < 8; ++each) {
    clients.push_back(std::make_unique<Client>(this->port_));
    clients.back()->write(pattern(100, each));
    clients.back()->finish();
  }
  ASSERT_TRUE(this->until([&] { return this->accepted_.size() == 8; }));
  sockets = this->accepted_;
  const std::string answer = "answer";
  for (const SocketId socket : sockets) {
    this->io_->receive_start(socket);
    this->io_->send(socket, bytes_of(answer));
  }
  for (const SocketId socket : sockets) {
    ASSERT_TRUE(this->until([&] { return this->reported(socket).ends == 1; }));
    ASSERT_TRUE(this->until([&] { return this->reported(socket).sents == 1; }));
    ASSERT_TRUE(this->until([&] { return this->reported(socket).received.size() == 100; }));
  }
  for (const SocketId socket : sockets) this->io_->close(socket);
  for (const SocketId socket : sockets) {
    ASSERT_TRUE(this->until([&] { return this->reported(socket).closes == 1; }));
  }
}

}  // namespace
}  // namespace sluice::io::test
