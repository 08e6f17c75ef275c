// A connection that moves between two Ios ends, or finds no free slot: the Io that holds the
// connection reports its end, and no slot, descriptor or byte of memory is lost.
#include <fcntl.h>

#include "allocation_counter.hpp"
#include "io_move_fixture.hpp"

namespace sluice::io::test {
namespace {

template <typename Backend>
using IoMoveEnd = IoMove<Backend>;
TYPED_TEST_SUITE(IoMoveEnd, Backends, BackendNames);

// ------------------------------------------------------------------------- how the peer ends

// Whether the end comes before the move, in the middle of it, between the Ios, or after it.
TYPED_TEST(IoMoveEnd, the_adopter_sees_the_end) {
  this->build();
  for (uint32_t when = 0; when < 6; ++when) {
    Client client(this->a_.port_);
    const SocketId old = this->a_.accept_one();
    this->a_.io_->receive_start(old);
    if (when != 1) this->a_.settle(2);
    client.write("last");
    if (when < 3) client.finish();
    if (when == 0) {
      ASSERT_TRUE(this->a_.until([&] { return this->a_.reported(old).ends == 1; }));
    }
    this->a_.io_->release(old);
    if (when == 3) client.finish();
    const int fd = this->a_.await_release(old);
    if (when == 4) client.finish();
    const SocketId now = this->b_.adopt(fd);
    this->b_.io_->receive_start(now);
    if (when == 5) client.finish();
    ASSERT_TRUE(this->b_.until([&] { return this->b_.reported(now).ends == 1; }, 2'000)) << when;
    this->b_.settle(2);
    EXPECT_EQ(this->b_.reported(now).ends, 1u) << when;
    EXPECT_EQ(this->b_.reported(now).failures, 0u) << when;
    EXPECT_EQ(this->a_.reported(old).ends, when == 0 ? 1u : 0u) << when;
    EXPECT_EQ(this->a_.reported(old).received + this->b_.reported(now).received, "last") << when;
    this->b_.close_and_wait(now);
  }
}

TYPED_TEST(IoMoveEnd, the_adopter_sees_a_hang_up_while_stopped) {
  this->build();
  for (const bool reported_before : {true, false}) {
    Client client(this->a_.port_);
    const SocketId old = this->a_.accept_one();
    client.write("unread");
    client.finish();
    if (reported_before) {
      ASSERT_TRUE(this->a_.until([&] { return this->a_.reported(old).hang_ups == 1; }));
    }
    const SocketId now = this->move(this->a_, this->b_, old);
    ASSERT_TRUE(this->b_.until([&] { return this->b_.reported(now).hang_ups == 1; }, 2'000));
    this->b_.settle(2);
    EXPECT_EQ(this->b_.reported(now).hang_ups, 1u);
    this->b_.io_->receive_start(now);
    ASSERT_TRUE(this->b_.until([&] { return this->b_.reported(now).ends == 1; }, 2'000));
    EXPECT_EQ(this->b_.reported(now).received, "unread");
    this->b_.close_and_wait(now);
  }
}

// The kernel reports a reset once. Even if the old Io got that report, the adopter must not take
// the reset for a mere end of stream: it would wait on that connection for ever.
TYPED_TEST(IoMoveEnd, the_adopter_sees_a_reset) {
  this->build();
  for (uint32_t when = 0; when < 12; ++when) {
    const bool receiving_before = (when & 1) != 0;
    const uint32_t moment = when % 4;
    const bool receiving_after = when >= 6;
    Client client(this->a_.port_);
    const SocketId old = this->a_.accept_one();
    if (receiving_before) this->a_.io_->receive_start(old);
    this->a_.settle(2);
    if (moment == 0) {
      client.reset();
      ASSERT_TRUE(this->a_.until([&] { return this->a_.reported(old).failures == 1; }, 2'000));
    }
    if (moment == 1) client.reset();
    this->a_.io_->release(old);
    if (moment == 2) client.reset();
    const int fd = this->a_.await_release(old);
    const SocketId now = this->b_.adopt(fd);
    if (receiving_after) this->b_.io_->receive_start(now);
    if (moment == 3) client.reset();
    ASSERT_TRUE(this->b_.until([&] { return this->b_.reported(now).failures == 1; }, 2'000))
        << when;
    this->b_.settle(2);
    EXPECT_EQ(this->b_.reported(now).failures, 1u) << when;
    EXPECT_EQ(this->b_.reported(now).failure, -ECONNRESET) << when;
    EXPECT_EQ(this->b_.reported(now).ends, 0u) << when;
    EXPECT_EQ(this->a_.reported(old).failures, moment == 0 ? 1u : 0u) << when;
    this->b_.close_and_wait(now);
  }
}

// The old Io tried to send to a peer that had reset: only the send saw it.
TYPED_TEST(IoMoveEnd, the_adopter_sees_a_reset_that_a_send_met) {
  this->build();
  Client client(this->a_.port_);
  const SocketId old = this->a_.accept_one();
  client.reset();
  const std::string text = "lost";
  this->a_.io_->send(old, bytes_of(text));
  ASSERT_TRUE(this->a_.until([&] { return this->a_.reported(old).sents == 1; }));
  EXPECT_LT(this->a_.reported(old).sent_result, 0);
  const SocketId now = this->move(this->a_, this->b_, old);
  EXPECT_TRUE(this->b_.until([&] { return this->b_.reported(now).failures == 1; }, 2'000));
}

// ------------------------------------------------------------------------- slots and descriptors

TYPED_TEST(IoMoveEnd, close_of_a_socket_that_is_being_released_wins) {
  this->build();
  for (uint32_t calls = 0; calls < 16; ++calls) {
    Client client(this->a_.port_);
    const SocketId socket = this->a_.accept_one();
    if (calls & 1) this->a_.io_->receive_start(socket);
    if (calls & 2) this->a_.poll_once(0);
    if (calls & 4) client.write("bytes under way");
    if (calls & 8) this->a_.io_->receive_stop(socket);
    this->a_.io_->release(socket);
    this->a_.io_->close(socket);
    ASSERT_TRUE(this->a_.until([&] { return this->a_.reported(socket).closes == 1; }, 2'000))
        << calls;
    this->a_.settle(2);
    EXPECT_EQ(this->a_.reported(socket).releases, 0u) << calls;
    EXPECT_FALSE(this->a_.reported(socket).after_closed) << calls;
    std::string got;
    const ssize_t end = this->a_.read_to_end(client, got);
    EXPECT_TRUE(end == 0 || end == -ECONNRESET) << calls << ": " << end;
  }
}

// The array has room for one event: of three sockets that are ready to be released, two are not
// reported yet.
TYPED_TEST(IoMoveEnd, close_wins_until_released_is_reported) {
  this->build();
  for (const bool receiving : {false, true}) {
    this->a_.accepted_.clear();
    std::vector<std::unique_ptr<Client>> clients;
    for (uint32_t each = 0; each < 3; ++each) {
      clients.push_back(std::make_unique<Client>(this->a_.port_));
      const SocketId socket = this->a_.accept_one();
      if (receiving) this->a_.io_->receive_start(socket);
    }
    this->a_.settle(2);
    this->a_.events_max_ = 1;
    const auto sockets = this->a_.accepted_;
    for (const SocketId socket : sockets) this->a_.io_->release(socket);
    const auto releases = [&] {
      uint32_t count = 0;
      for (const SocketId socket : sockets) count += this->a_.reported(socket).releases;
      return count;
    };
    ASSERT_TRUE(this->a_.until([&] { return releases() == 1; }, 2'000));
    for (const SocketId socket : sockets) {
      if (this->a_.reported(socket).releases == 0) this->a_.io_->close(socket);
    }
    this->a_.events_max_ = 512;
    this->a_.settle();
    EXPECT_EQ(releases(), 1u);
    for (const SocketId socket : sockets) {
      const Reports& reported = this->a_.reported(socket);
      EXPECT_EQ(reported.closes + reported.releases, 1u);
      EXPECT_FALSE(reported.after_closed);
      if (reported.releases > 0) this->a_.io_->discard(reported.descriptor);
    }
    for (auto& client : clients) {
      std::string got;
      EXPECT_EQ(client->read(got, 1, 0), 0);
    }
  }
}

TYPED_TEST(IoMoveEnd, a_close_after_the_move_shows_the_peer_the_end) {
  this->build();
  Client client(this->a_.port_);
  const SocketId old = this->a_.accept_one();
  this->a_.io_->receive_start(old);
  this->a_.settle(2);
  const SocketId now = this->move(this->a_, this->b_, old);
  this->b_.io_->receive_start(now);
  this->b_.settle(2);
  this->b_.close_and_wait(now);
  std::string got;
  EXPECT_EQ(client.read(got, 1, 0), 0);  // the old Io holds nothing of it
}

TYPED_TEST(IoMoveEnd, the_caller_keeps_the_descriptor_without_a_free_slot) {
  this->build({.sockets_max = 16}, {.sockets_max = 1});
  Client blocker(this->b_.port_);
  const SocketId in_use = this->b_.accept_one();
  Client client(this->a_.port_);
  client.write("patient");
  const int fd = this->a_.release(this->a_.accept_one());
  EXPECT_EQ(this->b_.io_->adopt(fd), std::nullopt);
  this->b_.settle(2);
  this->b_.close_and_wait(in_use);
  const SocketId now = this->b_.adopt(fd);
  this->b_.io_->receive_start(now);
  EXPECT_TRUE(this->b_.until([&] { return this->b_.reported(now).received == "patient"; }));
}

TYPED_TEST(IoMoveEnd, a_reused_slot_has_another_generation) {
  this->build({.sockets_max = 1}, {.sockets_max = 1});
  Client client(this->a_.port_);
  SocketId socket = this->a_.accept_one();
  std::vector<SocketId> seen{socket};
  for (uint32_t round = 0; round < 5; ++round) {
    const SocketId there = this->move(this->a_, this->b_, socket);
    EXPECT_EQ(there.index, 0u);
    socket = this->move(this->b_, this->a_, there);
    EXPECT_EQ(socket.index, 0u);
    for (const SocketId before : seen) EXPECT_NE(before.generation, socket.generation);
    seen.push_back(socket);
  }
}

TYPED_TEST(IoMoveEnd, accepting_goes_on_after_a_release) {
  this->build({.sockets_max = 2});
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t each = 0; each < 6; ++each) {
    clients.push_back(std::make_unique<Client>(this->a_.port_));
    clients.back()->write(std::to_string(each));
  }
  ASSERT_TRUE(this->a_.until([&] { return this->a_.accepted_.size() == 2; }));
  this->a_.settle();
  EXPECT_EQ(this->a_.accepted_.size(), 2u);
  for (uint32_t each = 0; each < 6; ++each) {
    ASSERT_TRUE(this->a_.until([&] { return this->a_.accepted_.size() > each; }, 2'000)) << each;
    const SocketId now = this->move(this->a_, this->b_, this->a_.accepted_[each]);
    this->b_.io_->receive_start(now);
    EXPECT_TRUE(
        this->b_.until([&] { return this->b_.reported(now).received == std::to_string(each); }));
  }
}

// A connection that the kernel accepts before it sees the cancel must not be lost either.
TYPED_TEST(IoMoveEnd, accepting_pauses_while_an_adopted_socket_has_the_last_slot) {
  this->build({.sockets_max = 16}, {.sockets_max = 1});
  this->b_.settle(2);
  Client moved(this->a_.port_);
  const int fd = this->a_.release(this->a_.accept_one());
  Client waiting(this->b_.port_);
  waiting.write("next");
  const SocketId adopted = this->b_.adopt(fd);
  this->b_.settle();
  EXPECT_EQ(this->b_.accepted_.size(), 0u);
  this->b_.close_and_wait(adopted);
  const SocketId next = this->b_.accept_one_of(0);
  this->b_.io_->receive_start(next);
  EXPECT_TRUE(this->b_.until([&] { return this->b_.reported(next).received == "next"; }));
}

TYPED_TEST(IoMoveEnd, the_descriptor_keeps_its_options) {
  this->build();
  Client client(this->a_.port_);
  const int fd = this->a_.release(this->a_.accept_one());
  EXPECT_NE(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  this->a_.io_->discard(fd);
  std::string got;
  EXPECT_EQ(client.read(got, 1, 0), 0);
}

TYPED_TEST(IoMoveEnd, moves_leak_no_descriptor_and_no_slot) {
  this->build({.sockets_max = 4}, {.sockets_max = 4});
  this->a_.settle();
  const size_t before = open_descriptors();
  for (uint32_t round = 0; round < 500; ++round) {
    Client client(this->a_.port_);
    client.write("text");
    const SocketId old = this->a_.accept_one();
    if (round & 1) this->a_.io_->receive_start(old);
    if (round & 2) this->a_.poll_once(0);
    if (round & 4) client.reset();
    this->a_.io_->release(old);
    if (round % 5 == 0) {
      this->a_.io_->close(old);
      ASSERT_TRUE(this->a_.until([&] { return this->a_.reported(old).closes == 1; }));
      continue;
    }
    const int fd = this->a_.await_release(old);
    if (round % 5 == 1) {
      this->a_.io_->discard(fd);
      continue;
    }
    const SocketId now = this->b_.adopt(fd);
    if (round & 8) this->b_.io_->receive_start(now);
    if (round & 16) this->b_.poll_once(0);
    this->b_.close_and_wait(now);
  }
  EXPECT_EQ(open_descriptors(), before);

  // A destroyed Io closes the descriptors that it has not handed over yet.
  Client client(this->a_.port_);
  const SocketId last = this->a_.accept_one();
  this->a_.io_->receive_start(last);
  this->a_.settle(2);
  this->a_.io_->release(last);
  this->a_.io_.reset();
  std::string got;
  EXPECT_EQ(client.read(got, 1, 0), 0);
}

TYPED_TEST(IoMoveEnd, moves_allocate_nothing) {
  this->build();
  Client client(this->a_.port_);
  SocketId socket = this->a_.accept_one();
  std::array<Event, 16> events;
  Io* from = this->a_.io_.get();
  Io* to = this->b_.io_.get();
  const auto move_once = [&] {
    from->receive_start(socket);
    from->poll(events, 0);
    from->release(socket);
    for (;;) {
      const size_t count = from->poll(events, base::ns_per_ms);
      if (count == 1 && events[0].kind == EventKind::released) break;
    }
    socket = *to->adopt(events[0].result);
    std::swap(from, to);
  };
  for (int each = 0; each < 4; ++each) move_once();
  const uint64_t before = allocations();
  for (int each = 0; each < 100; ++each) move_once();
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace sluice::io::test
