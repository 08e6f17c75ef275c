// How sockets begin and end in both kernel back ends: accepting at its limits, closing with
// everything in flight, waking, and that nothing is leaked or allocated on the way.
#include <sys/resource.h>

#include <thread>

#include "allocation_counter.hpp"
#include "io/clock.hpp"
#include "io_fixture.hpp"

namespace sluice::io::test {
namespace {

template <typename Backend>
class IoLife : public IoTest<Backend> {};
TYPED_TEST_SUITE(IoLife, Backends, BackendNames);

// Limits the descriptors while it lives. Create it before the ring accepts: that keeps the limit it
// saw.
class DescriptorLimit {
 public:
  DescriptorLimit() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit{.rlim_cur = 256, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

std::vector<FileDescriptor> take_all_descriptors() {
  std::vector<FileDescriptor> all;
  all.reserve(256);
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) all.emplace_back(fd);
  return all;
}

TYPED_TEST(IoLife, close_with_everything_in_flight_reports_sent_then_closed_once) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  const std::string text = pattern(size_t{16} << 20);
  this->io_->send(socket, bytes_of(text));
  this->settle();
  this->io_->receive_stop(socket);  // and the cancel of the receive, and the watch
  client.write("too late");
  this->io_->close(socket);
  ASSERT_TRUE(this->until([&] { return this->reported(socket).closes == 1; }, 2'000));
  EXPECT_EQ(this->reported(socket).sents, 1u);
  EXPECT_LT(this->reported(socket).sent_result, 0);
  this->settle();
  EXPECT_EQ(this->reported(socket).closes, 1u);
  EXPECT_FALSE(this->reported(socket).after_closed);
}

// State time goes on where an earlier start of the server has ended; the machine's clock does not.
TYPED_TEST(IoLife, the_time_may_be_ahead_of_the_machines_but_waits_are_not_longer) {
  constexpr int64_t ahead_ns = 40 * base::ns_per_day;
  const base::Now begin = read_clock();
  this->build({.sockets_max = 16, .clock_offset_ns = ahead_ns});
  const base::Now first = this->io_->now();
  EXPECT_GE(first.monotonic_ns, begin.monotonic_ns + ahead_ns) << "before the first poll";
  this->poll_once(5 * base::ns_per_ms);
  const base::Now now = this->io_->now();
  const base::Now end = read_clock();
  EXPECT_GE(now.monotonic_ns, first.monotonic_ns + 5 * base::ns_per_ms);
  EXPECT_LE(now.monotonic_ns, end.monotonic_ns + ahead_ns);
  EXPECT_GE(now.wall_ns, begin.wall_ns) << "the wall clock's is as it is";
  EXPECT_LE(now.wall_ns, end.wall_ns);
}

TYPED_TEST(IoLife, a_socket_knows_its_peer) {
  this->build();
  const Client client(this->port_);
  const SocketId socket = this->accept_one();
  EXPECT_EQ(this->io_->peer(socket), "127.0.0.1:" + std::to_string(client.own_port()));
}

TYPED_TEST(IoLife, close_lets_the_end_through_while_receiving) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  this->settle();
  this->io_->close(socket);
  std::string got;
  EXPECT_EQ(this->read_to_end(client, got), 0);
}

TYPED_TEST(IoLife, close_lets_the_end_through_while_stopped) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->settle();
  this->io_->close(socket);
  std::string got;
  EXPECT_EQ(this->read_to_end(client, got), 0);
}

// With unread bytes the end is a reset: TCP demands it, and the peer sees it.
TYPED_TEST(IoLife, close_with_unread_bytes_resets_the_peer) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  client.write("unread");
  this->settle();
  this->io_->close(socket);
  ASSERT_TRUE(this->until([&] { return this->reported(socket).closes == 1; }));
  std::string got;
  const ssize_t end = this->read_to_end(client, got);
  EXPECT_TRUE(end == 0 || end == -ECONNRESET) << end;
  client.write("x");
  this->settle();
  EXPECT_EQ(client.write("y"), 0u);
}

TYPED_TEST(IoLife, close_right_after_any_call_reports_closed) {
  this->build(this->small());
  const std::string text = pattern(size_t{8} << 20);
  for (uint32_t calls = 0; calls < 32; ++calls) {
    Client client(this->port_);
    const SocketId socket = this->accept_one();
    if (calls & 1) this->io_->receive_start(socket);
    if (calls & 2) this->poll_once(0);
    if (calls & 4) this->io_->send(socket, bytes_of(text));
    if (calls & 8) this->io_->receive_stop(socket);
    if (calls & 16) this->poll_once(0);
    this->io_->close(socket);
    ASSERT_TRUE(this->until([&] { return this->reported(socket).closes == 1; }, 2'000)) << calls;
    EXPECT_EQ(this->reported(socket).sents, (calls & 4) != 0 ? 1u : 0u) << calls;
    EXPECT_EQ(this->reported(socket).ends + this->reported(socket).failures, 0u) << calls;
  }
}

TYPED_TEST(IoLife, close_of_a_socket_that_waits_for_buffers) {
  this->build({.sockets_max = 16, .receive_buffers = 1, .receive_buffer_bytes = 64});
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t each = 0; each < 8; ++each) {
    clients.push_back(std::make_unique<Client>(this->port_));
    this->io_->receive_start(this->accept_one());
  }
  for (auto& client : clients) client->write(pattern(5'000));
  for (int polls = 0; polls < 5; ++polls) this->poll_once();
  for (const SocketId socket : this->accepted_) this->io_->close(socket);
  for (const SocketId socket : this->accepted_) {
    EXPECT_TRUE(this->until([&] { return this->reported(socket).closes == 1; }, 2'000));
    EXPECT_FALSE(this->reported(socket).after_closed);
  }
}

TYPED_TEST(IoLife, delivers_nothing_after_close) {
  this->build();
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  this->io_->receive_start(socket);
  this->settle();
  client.write("bytes that arrive before the close is submitted");
  client.finish();
  this->io_->close(socket);
  ASSERT_TRUE(this->until([&] { return this->reported(socket).closes == 1; }));
  EXPECT_EQ(this->reported(socket).receives, 0u);
  EXPECT_EQ(this->reported(socket).ends, 0u);
  EXPECT_EQ(this->reported(socket).failures, 0u);
}

TYPED_TEST(IoLife, a_reused_slot_has_another_generation) {
  this->build({.sockets_max = 1});
  std::vector<SocketId> seen;
  for (int round = 0; round < 5; ++round) {
    Client client(this->port_);
    const SocketId socket = this->accept_one();
    EXPECT_EQ(socket.index, 0u);
    for (const SocketId before : seen) EXPECT_NE(before.generation, socket.generation);
    seen.push_back(socket);
    this->close_and_wait(socket);
  }
}

TYPED_TEST(IoLife, ten_thousand_connections_leak_no_descriptor_and_no_slot) {
  this->build(this->small());
  this->settle();
  const size_t before = open_descriptors();
  uint32_t closed = 0;
  for (uint32_t round = 0; round < 1'250; ++round) {
    std::vector<std::unique_ptr<Client>> clients;
    for (int each = 0; each < 8; ++each) {
      clients.push_back(std::make_unique<Client>(this->port_));
      ASSERT_TRUE(clients.back()->connected());
    }
    while (this->accepted_.size() < 8) this->poll_once();
    const std::string text = "answer";
    for (size_t each = 0; each < 8; ++each) {
      if (each & 1) this->io_->receive_start(this->accepted_[each]);
      if (each & 2) this->io_->send(this->accepted_[each], bytes_of(text));
      if (each & 4) clients[each]->reset();
    }
    this->poll_once(0);
    for (const SocketId socket : this->accepted_) this->io_->close(socket);
    for (const SocketId socket : this->accepted_) {
      ASSERT_TRUE(this->until([&] { return this->reported(socket).closes == 1; }));
      ++closed;
    }
    this->accepted_.clear();
    this->reports_.clear();
  }
  EXPECT_EQ(closed, 10'000u);
  EXPECT_EQ(open_descriptors(), before);
}

TYPED_TEST(IoLife, accepting_pauses_while_every_slot_is_in_use) {
  this->build({.sockets_max = 4});
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t each = 0; each < 12; ++each) {
    clients.push_back(std::make_unique<Client>(this->port_));
    ASSERT_TRUE(clients.back()->connected());
    clients.back()->write(std::to_string(each));
  }
  ASSERT_TRUE(this->until([&] { return this->accepted_.size() == 4; }));
  this->settle();
  EXPECT_EQ(this->accepted_.size(), 4u);
  // Each freed slot lets the next one in, and none is lost.
  for (uint32_t each = 0; each < 12; ++each) {
    const SocketId socket = this->accept_one_of(each);
    this->io_->receive_start(socket);
    ASSERT_TRUE(this->until([&] { return !this->reported(socket).received.empty(); })) << each;
    EXPECT_EQ(this->reported(socket).received, std::to_string(each));
    this->close_and_wait(socket);
  }
  this->settle();
  EXPECT_EQ(this->accepted_.size(), 12u);
}

// A burst that is over leaves nothing behind that the next one, smaller or larger, could meet.
TYPED_TEST(IoLife, each_burst_beyond_the_slots_is_accepted_in_order) {
  this->build({.sockets_max = 4});
  this->settle();
  const size_t descriptors = open_descriptors();
  for (const uint32_t connections : {12u, 8u, 16u, 12u}) {
    const size_t before = this->accepted_.size();
    std::vector<std::unique_ptr<Client>> clients;
    for (uint32_t each = 0; each < connections; ++each) {
      clients.push_back(std::make_unique<Client>(this->port_));
      clients.back()->write(std::to_string(each));
    }
    for (uint32_t each = 0; each < connections; ++each) {
      const SocketId socket = this->accept_one_of(before + each);
      this->io_->receive_start(socket);
      ASSERT_TRUE(this->until([&] { return !this->reported(socket).received.empty(); })) << each;
      EXPECT_EQ(this->reported(socket).received, std::to_string(each));
      this->close_and_wait(socket);
    }
  }
  EXPECT_EQ(open_descriptors(), descriptors);
}

TYPED_TEST(IoLife, accept_finish_reports_queued_connections_then_closes_the_listener) {
  this->build();
  this->settle();
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t each = 0; each < 20; ++each) {
    clients.push_back(std::make_unique<Client>(this->port_));
    ASSERT_TRUE(clients.back()->connected());
  }
  this->io_->accept_finish(0);
  ASSERT_TRUE(this->until([&] {
    EXPECT_TRUE(this->listeners_closed_ == 0 || this->accepted_.size() == 20);
    return this->listeners_closed_ > 0;
  }));
  EXPECT_EQ(this->accepted_.size(), 20u);
  EXPECT_FALSE(Client(this->port_).connected());
  this->settle();
  EXPECT_EQ(this->listeners_closed_, 1u);
  // Accepted connections stay open.
  clients[7]->write("late");
  for (const SocketId socket : this->accepted_) this->io_->receive_start(socket);
  EXPECT_TRUE(this->until([&] {
    for (const SocketId socket : this->accepted_) {
      if (this->reported(socket).received == "late") return true;
    }
    return false;
  }));
}

TYPED_TEST(IoLife, accept_finish_without_slots_refuses_the_rest) {
  this->build({.sockets_max = 2});
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t each = 0; each < 6; ++each) {
    clients.push_back(std::make_unique<Client>(this->port_));
  }
  ASSERT_TRUE(this->until([&] { return this->accepted_.size() == 2; }));
  this->io_->accept_finish(0);
  ASSERT_TRUE(this->until([&] { return this->listeners_closed_ == 1; }));
  uint32_t refused = 0;
  for (auto& client : clients) {
    std::string got;
    if (client->read(got) != -EAGAIN) ++refused;
  }
  EXPECT_EQ(refused, 4u);
  EXPECT_EQ(this->accepted_.size(), 2u);
}

TYPED_TEST(IoLife, without_descriptors_one_peer_is_refused_and_accepting_goes_on_later) {
  const DescriptorLimit limit;
  this->build(this->small());
  Client first(this->port_);
  const SocketId old = this->accept_one();
  this->io_->receive_start(old);
  this->settle();
  Client hanging(this->port_);  // queued by the kernel when the descriptors run out
  std::vector<FileDescriptor> all = take_all_descriptors();
  const bool failed = this->until([&] { return this->accept_failures_ > 0; }, 2'000);
  std::string got;
  const ssize_t end = this->read_to_end(hanging, got);
  // The others are served, and nothing spins.
  first.write("still served");
  const bool served = this->until([&] { return this->reported(old).received == "still served"; });
  const uint64_t before = this->io_->statistics().enters;
  this->poll_once(50 * base::ns_per_ms);
  const uint64_t enters = this->io_->statistics().enters - before;
  all.clear();

  EXPECT_TRUE(failed);
  EXPECT_EQ(this->accept_failure_, -EMFILE);
  EXPECT_EQ(end, 0);
  EXPECT_TRUE(served);
  EXPECT_LE(enters, 4u);
  Client next(this->port_);
  const size_t accepted = this->accepted_.size();
  EXPECT_TRUE(this->until([&] { return this->accepted_.size() > accepted; }));
}

// Each refusal leaves a spare descriptor for the next one.
TYPED_TEST(IoLife, without_descriptors_every_peer_is_refused) {
  const DescriptorLimit limit;
  this->build(this->small());
  this->settle();
  std::vector<std::unique_ptr<Client>> clients;
  for (int each = 0; each < 4; ++each) clients.push_back(std::make_unique<Client>(this->port_));
  std::vector<FileDescriptor> all = take_all_descriptors();
  std::vector<ssize_t> ends;
  std::string got;
  for (const auto& client : clients) ends.push_back(this->read_to_end(*client, got));
  all.clear();

  EXPECT_EQ(ends, std::vector<ssize_t>(clients.size(), 0));
  EXPECT_TRUE(this->accepted_.empty());
}

TYPED_TEST(IoLife, wake_from_another_thread_ends_a_wait) {
  this->build();
  this->settle();
  const auto begin = std::chrono::steady_clock::now();
  std::thread waker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    this->io_->wake();
  });
  this->poll_once(10 * base::ns_per_s);
  waker.join();
  EXPECT_EQ(this->wakes_, 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TYPED_TEST(IoLife, a_wake_before_the_poll_is_not_lost_and_many_are_one) {
  this->build();
  for (int each = 0; each < 100; ++each) this->io_->wake();
  this->poll_once(10 * base::ns_per_s);
  EXPECT_EQ(this->wakes_, 1u);
  this->settle();
  EXPECT_EQ(this->wakes_, 1u);
  this->io_->wake();
  this->poll_once(10 * base::ns_per_s);
  EXPECT_EQ(this->wakes_, 2u);
}

// Each wake follows something that was published: after the last one it is always seen.
TYPED_TEST(IoLife, no_wake_is_lost_under_load) {
  this->build();
  constexpr uint32_t last = 50'000;
  std::atomic<uint32_t> published{0};
  std::thread waker([&] {
    for (uint32_t each = 1; each <= last; ++each) {
      published.store(each, std::memory_order_relaxed);
      this->io_->wake();
    }
  });
  uint32_t seen = 0;
  while (seen < last) {
    const uint32_t before = this->wakes_;
    this->poll_once(2 * base::ns_per_s);
    ASSERT_GT(this->wakes_, before) << "a wait ran out although " << published << " was published";
    seen = published.load(std::memory_order_relaxed);
  }
  waker.join();
}

// What a caller has queued leaves with a poll(), also where the caller would rather wait first.
TYPED_TEST(IoLife, is_not_quiet_before_a_poll_has_taken_what_was_queued) {
  this->build();
  this->settle();
  EXPECT_TRUE(this->io_->is_quiet());
  const Client client(this->port_);
  ASSERT_TRUE(this->until([&] { return !this->accepted_.empty(); }));
  this->settle();
  EXPECT_TRUE(this->io_->is_quiet());
  const SocketId socket = this->accepted_[0];
  const std::string bytes = "answer";
  this->io_->send(socket, std::as_bytes(std::span(bytes)));
  EXPECT_FALSE(this->io_->is_quiet());
  EXPECT_TRUE(this->until([&] { return this->reports_.at({socket}).sents == 1; }));
  this->settle();
  EXPECT_TRUE(this->io_->is_quiet());
  this->io_->close(socket);
  EXPECT_FALSE(this->io_->is_quiet());
}

TYPED_TEST(IoLife, is_not_quiet_once_bytes_have_arrived_in_a_ring) {
  this->build();
  Client client(this->port_);
  ASSERT_TRUE(this->until([&] { return !this->accepted_.empty(); }));
  this->io_->receive_start(this->accepted_[0]);
  this->settle();
  EXPECT_TRUE(this->io_->is_quiet());
  EXPECT_GT(client.write("request"), 0u);
  if (this->io_->name() != "uring") return;  // epoll shows nothing without a system call
  const int64_t end_ns = this->io_->pause() + 30 * base::ns_per_s;
  while (this->io_->is_quiet()) ASSERT_LT(this->io_->pause(), end_ns);
}

TYPED_TEST(IoLife, a_pause_is_short_and_reads_the_clock) {
  this->build();
  this->poll_once(0);
  const int64_t polled_ns = this->io_->now().monotonic_ns;
  const int64_t first_ns = this->io_->pause();
  EXPECT_GE(first_ns, polled_ns);
  constexpr int pauses = 1'000;
  int64_t last_ns = first_ns;
  for (int pause = 0; pause < pauses; ++pause) {
    const int64_t next_ns = this->io_->pause();
    EXPECT_GE(next_ns, last_ns);
    last_ns = next_ns;
  }
  EXPECT_GT(last_ns, first_ns);
  EXPECT_LT(last_ns - first_ns, 5 * base::ns_per_s);
  EXPECT_EQ(this->io_->now().monotonic_ns, polled_ns);
}

TYPED_TEST(IoLife, poll_waits_as_long_as_asked_and_reads_the_clock) {
  this->build();
  this->settle();
  const auto waited = [this](int64_t wait_ns) {
    const int64_t before = this->io_->now().monotonic_ns;
    EXPECT_EQ(this->poll_once(wait_ns), 0u);
    const int64_t took = this->io_->now().monotonic_ns - before;
    EXPECT_GE(took, wait_ns);
    return took;
  };
  // A machine that stands still for a moment lengthens some of them, not each.
  const auto shortest = [&](int64_t wait_ns, int64_t bound_ns) {
    int64_t least = waited(wait_ns);
    for (int more = 0; more < 20 && least >= bound_ns; ++more) least = waited(wait_ns);
    return least;
  };
  EXPECT_LT(shortest(30 * base::ns_per_ms, 60 * base::ns_per_ms), 60 * base::ns_per_ms);
  EXPECT_LT(shortest(0, 20 * base::ns_per_ms), 20 * base::ns_per_ms);
  EXPECT_GT(this->io_->now().wall_ns, 1'600'000'000LL * base::ns_per_s);
}

TYPED_TEST(IoLife, nothing_is_allocated_in_steady_state) {
  this->build(this->small());
  const std::string question = pattern(1'000);
  const std::string answer = pattern(5'000);
  std::string got;
  got.reserve(1 << 20);
  std::vector<SocketId> sockets;
  sockets.reserve(64);
  uint32_t answered = 0;
  uint32_t closed = 0;
  const auto serve = [&](int64_t wait_ns) {
    const size_t count = this->io_->poll(this->events_, wait_ns);
    for (const Event& event : std::span(this->events_).first(count)) {
      if (event.kind == EventKind::accepted) {
        sockets.push_back(event.socket);
        this->io_->receive_start(event.socket);
      }
      if (event.kind == EventKind::received) this->io_->send(event.socket, bytes_of(answer));
      if (event.kind == EventKind::sent) {
        ++answered;
        this->io_->receive_stop(event.socket);
        this->io_->receive_start(event.socket);
      }
      if (event.kind == EventKind::end_of_stream) this->io_->close(event.socket);
      if (event.kind == EventKind::closed) ++closed;
    }
  };
  const auto round = [&] {
    Client client(this->port_);
    for (int each = 0; each < 10; ++each) {
      const uint32_t before = answered;
      client.write(question);
      while (answered == before) serve(base::ns_per_ms);
      got.clear();
      while (got.size() < answer.size()) {
        if (client.read(got) == -EAGAIN) serve(0);
      }
    }
    client.finish();
    const uint32_t before = closed;
    while (closed == before) serve(base::ns_per_ms);
  };
  round();
  const uint64_t before = allocations();
  for (int each = 0; each < 20; ++each) round();
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace sluice::io::test
