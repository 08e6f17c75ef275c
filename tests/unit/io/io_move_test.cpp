// A connection moves between two Ios of a kind, over real sockets: release(), then adopt().
// Whatever the moment, each byte arrives once and in order, and how the peer ends is told where the
// connection is then.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "allocation_counter.hpp"
#include "io_fixture.hpp"

namespace sluice::io::test {
namespace {

// One Io, its listener and what it told.
template <typename Backend>
struct Core : IoTest<Backend> {
  using Base = IoTest<Backend>;
  using Base::accept_one;
  using Base::accept_one_of;
  using Base::accepted_;
  using Base::build;
  using Base::close_and_wait;
  using Base::events_max_;
  using Base::io_;
  using Base::port_;
  using Base::read_to_end;
  using Base::settle;
  using Base::told;
  using Base::told_;
  using Base::turn;
  using Base::until;
  void TestBody() override {}

  int release(SocketId socket) {
    io_->release(socket);
    return await_release(socket);
  }

  int await_release(SocketId socket) {
    EXPECT_TRUE(until([&] { return told(socket).releases == 1; }, 2'000));
    return told(socket).descriptor;
  }

  SocketId adopt(int fd) {
    const std::optional<SocketId> socket = io_->adopt(fd);
    EXPECT_TRUE(socket.has_value());
    told_[{*socket}] = {};
    return *socket;
  }
};

template <typename Backend>
class IoMove : public testing::Test {
 protected:
  using Side = Core<Backend>;

  void build(const Options& a = {.sockets_max = 16}, const Options& b = {.sockets_max = 16}) {
    build_one(a_, a);
    build_one(b_, b);
  }

  static void build_one(Side& side, const Options& like) {
    side.build({.sockets_max = like.sockets_max,
                .receive_buffers = like.receive_buffers,
                .receive_buffer_bytes = like.receive_buffer_bytes});
  }

  static SocketId move(Side& from, Side& to, SocketId socket) {
    return to.adopt(from.release(socket));
  }

  Side a_;
  Side b_;
};
TYPED_TEST_SUITE(IoMove, Backends, BackendNames);

TYPED_TEST(IoMove, bytes_before_during_and_after_arrive_once_and_in_order) {
  this->build();
  Client client(this->a_.port_);
  const SocketId old = this->a_.accept_one();
  this->a_.io_->receive_start(old);
  client.write("before ");
  ASSERT_TRUE(this->a_.until([&] { return this->a_.told(old).received == "before "; }));
  client.write("during ");
  this->a_.io_->release(old);
  client.write("and ");
  const SocketId now = this->b_.adopt(this->a_.await_release(old));
  client.write("after");
  this->b_.settle(2);
  EXPECT_EQ(this->b_.told(now).receives, 0u);  // not before receive_start()
  this->b_.io_->receive_start(now);
  const std::string all = "before during and after";
  ASSERT_TRUE(this->b_.until([&] {
    return this->a_.told(old).received.size() + this->b_.told(now).received.size() >= all.size();
  }));
  EXPECT_EQ(this->a_.told(old).received + this->b_.told(now).received, all);

  const std::string answer = "answer";
  this->b_.io_->send(now, bytes_of(answer));
  ASSERT_TRUE(this->b_.until([&] { return this->b_.told(now).sents == 1; }));
  this->b_.io_->close(now);
  std::string got;
  EXPECT_EQ(this->b_.read_to_end(client, got), 0);
  EXPECT_EQ(got, answer);
  EXPECT_FALSE(this->a_.told(old).after_closed);
}

// More pieces have been received than the array has room for: those come before `released`, and
// in an earlier poll().
TYPED_TEST(IoMove, what_was_received_but_not_told_comes_before_released) {
  const std::string text = pattern(640);
  for (const size_t room : {size_t{1}, size_t{4}, size_t{512}}) {
    this->build({.sockets_max = 4, .receive_buffers = 16, .receive_buffer_bytes = 64});
    Client client(this->a_.port_);
    const SocketId old = this->a_.accept_one();
    this->a_.io_->receive_start(old);
    this->a_.settle(2);
    client.write(text);
    this->a_.events_max_ = 1;
    ASSERT_TRUE(this->a_.until([&] { return this->a_.told(old).receives == 1; }));
    this->a_.io_->release(old);
    this->a_.events_max_ = room;
    const SocketId now = this->b_.adopt(this->a_.await_release(old));
    this->a_.events_max_ = 512;
    if (this->a_.io_->name() == "uring") {
      EXPECT_GT(this->a_.told(old).receives, 1u);
    }
    this->b_.io_->receive_start(now);
    client.finish();
    ASSERT_TRUE(this->b_.until([&] { return this->b_.told(now).ends == 1; }));
    EXPECT_TRUE(this->a_.told(old).received + this->b_.told(now).received == text) << room;
  }
}

// An event that was noted, but had no room in the array, is left to the adopter as well.
TYPED_TEST(IoMove, an_end_that_was_not_told_yet_is_told_to_the_adopter_only) {
  for (const bool reset : {false, true}) {
    this->build();
    std::vector<std::unique_ptr<Client>> clients;
    this->a_.accepted_.clear();
    for (uint32_t each = 0; each < 3; ++each) {
      clients.push_back(std::make_unique<Client>(this->a_.port_));
      this->a_.io_->receive_start(this->a_.accept_one());
    }
    this->a_.settle(2);
    for (auto& client : clients) reset ? client->reset() : client->finish();
    this->a_.events_max_ = 1;
    const auto sockets = this->a_.accepted_;
    const auto told_count = [&](SocketId socket) {
      return this->a_.told(socket).ends + this->a_.told(socket).failures;
    };
    ASSERT_TRUE(this->a_.until([&] {
      return std::ranges::any_of(sockets, [&](auto id) { return told_count(id) == 1; });
    }));
    for (const SocketId old : sockets) this->a_.io_->release(old);
    for (const SocketId old : sockets) {
      const SocketId now = this->b_.adopt(this->a_.await_release(old));
      this->b_.io_->receive_start(now);
      const Told& told = this->b_.told(now);
      ASSERT_TRUE(this->b_.until([&] { return told.ends + told.failures == 1; }, 2'000));
      EXPECT_EQ(told.failures, reset ? 1u : 0u);
    }
    uint32_t told_here = 0;
    for (const SocketId old : sockets) told_here += told_count(old);
    EXPECT_EQ(told_here, 1u);
    this->a_.events_max_ = 512;
  }
}

// A client that writes all the while, in odd pieces, from a thread of its own; never more than is
// allowed, or all would be there before the second move.
class Writer {
 public:
  Writer(Client& client, const std::string& text)
      : thread_([this, &client, &text] {
          std::string_view rest = text;
          for (size_t piece = 1; !rest.empty(); piece = piece * 7 % 9'973) {
            while (text.size() - rest.size() >= allowed_) std::this_thread::yield();
            const size_t count = std::min(piece, rest.size());
            const ssize_t sent = ::send(client.fd(), rest.data(), count, MSG_NOSIGNAL);
            if (sent < 0 && errno != EINTR) return;
            if (sent > 0) rest.remove_prefix(static_cast<size_t>(sent));
          }
          client.finish();
        }) {}
  ~Writer() {
    allow(SIZE_MAX);
    thread_.join();
  }

  void allow(size_t bytes) { allowed_ = bytes; }

 private:
  std::atomic<size_t> allowed_{0};
  std::thread thread_;
};

// What the holder of the connection did before it is released again.
template <typename Side>
void be_busy(Side& side, SocketId socket, uint32_t how, size_t bytes_wanted) {
  Io& io = *side.io_;
  const std::string note(1, static_cast<char>('a' + how));
  side.events_max_ = how == 0 ? 2 : 512;  // then more has been received than is told
  switch (how) {
    case 0:  // in full flow
      io.receive_start(socket);
      ASSERT_TRUE(side.until([&] { return side.told(socket).received.size() >= bytes_wanted; }));
      return;
    case 1:  // asked for, not yet submitted
      io.receive_start(socket);
      return;
    case 2:  // stopping
      io.receive_start(socket);
      side.turn(0);
      io.receive_stop(socket);
      return;
    case 3:  // never started
      return;
    case 4:  // restarted
      io.receive_start(socket);
      side.turn(0);
      io.receive_stop(socket);
      side.turn(0);
      io.receive_start(socket);
      return;
    default:  // just after a send
      io.receive_start(socket);
      io.send(socket, bytes_of(note));
      ASSERT_TRUE(side.until([&] { return side.told(socket).sents == 1; }));
      return;
  }
}

TYPED_TEST(IoMove, two_hundred_moves_while_a_megabyte_flows) {
  constexpr uint32_t moves = 200;
  const std::string text = pattern(size_t{1} << 20);
  for (const uint32_t buffer_bytes : {512u, 32'768u}) {
    const Options options{
        .sockets_max = 4, .receive_buffers = 8, .receive_buffer_bytes = buffer_bytes};
    this->build(options, options);
    Client client(this->a_.port_);
    typename TestFixture::Side* side = &this->a_;
    typename TestFixture::Side* other = &this->b_;
    SocketId socket = this->a_.accept_one();
    std::string received;
    Writer writer(client, text);
    for (uint32_t each = 0; each < moves; ++each) {
      const size_t wanted = text.size() / (moves + 1) * each;
      writer.allow(text.size() / (moves + 1) * (each + 1));
      be_busy(*side, socket, each % 6, wanted - std::min(wanted, received.size()));
      const SocketId next = this->move(*side, *other, socket);
      received += side->told(socket).received;
      EXPECT_FALSE(side->told(socket).after_closed);
      EXPECT_EQ(side->told(socket).ends + side->told(socket).failures, 0u);
      side->told_.erase({socket});  // whatever came now would be found missing
      socket = next;
      std::swap(side, other);
    }
    writer.allow(text.size());
    side->io_->receive_start(socket);
    ASSERT_TRUE(side->until([&] { return side->told(socket).ends == 1; }));
    received += side->told(socket).received;
    EXPECT_EQ(received.size(), text.size());
    EXPECT_TRUE(received == text);
    std::string got;
    client.read(got);
    EXPECT_EQ(got, std::string(moves / 6, 'f'));
    side->close_and_wait(socket);
  }
}

// The same with each Io on a thread of its own: the next holder begins while this one still works.
template <typename Backend>
class HandOver {
 public:
  // What one thread does until the peer has ended.
  void work(uint32_t own, std::vector<FileDescriptor> listeners) {
    const bool accepts = !listeners.empty();
    Backend io({.listeners = std::move(listeners),
                .sockets_max = 2,
                .receive_buffers = 8,
                .receive_buffer_bytes = 1'024});
    ios_[own] = &io;
    while (ios_[1 - own] == nullptr) std::this_thread::yield();
    if (accepts) io.accept_start(0);
    std::array<Event, 16> events;
    while (!over_) {
      const size_t count = io.poll(events, base::ns_per_s);
      for (const Event& event : std::span(events).first(count)) on_event(io, own, event);
    }
    ++finished_;
    while (finished_ < 2) std::this_thread::yield();  // the other may still wake this one
  }

  std::string received;  // the holder's
  uint32_t moves = 0;

 private:
  void on_event(Io& io, uint32_t own, const Event& event) {
    if (event.kind == EventKind::accepted) io.receive_start(event.socket);
    if (event.kind == EventKind::received) {
      received.append(reinterpret_cast<const char*>(event.bytes.data()), event.bytes.size());
      const bool due = !releasing_ && received.size() >= size_t{4'096} * (moves + 1);
      if (!due) return;
      releasing_ = true;
      io.release(event.socket);
    }
    if (event.kind == EventKind::released) {
      releasing_ = false;
      ++moves;
      descriptors_[1 - own] = event.result;
      ios_[1 - own].load()->wake();
    }
    if (event.kind == EventKind::woken) {
      const int fd = descriptors_[own].exchange(-1);
      if (fd >= 0) io.receive_start(*io.adopt(fd));
    }
    if (event.kind == EventKind::end_of_stream) {
      over_ = true;
      ios_[1 - own].load()->wake();
    }
  }

  bool releasing_ = false;  // the holder's
  std::array<std::atomic<Io*>, 2> ios_{};
  std::array<std::atomic<int>, 2> descriptors_{-1, -1};
  std::atomic<bool> over_{false};
  std::atomic<uint32_t> finished_{0};
};

TYPED_TEST(IoMove, two_threads_hand_a_connection_to_and_fro) {
  const std::string text = pattern(size_t{1} << 20);
  Listening listening = listen_on({.address = "127.0.0.1"});
  Client client(listening.port);
  HandOver<TypeParam> hand_over;
  {
    Writer writer(client, text);
    writer.allow(text.size());
    std::thread other([&] { hand_over.work(1, {}); });
    hand_over.work(0, std::move(listening.sockets));
    other.join();
  }
  EXPECT_GT(hand_over.moves, 50u);
  EXPECT_EQ(hand_over.received.size(), text.size());
  EXPECT_TRUE(hand_over.received == text);
}

TYPED_TEST(IoMove, right_after_accepted) {
  this->build();
  Client client(this->a_.port_);
  client.write("hello");
  const SocketId old = this->a_.accept_one();
  const SocketId now = this->move(this->a_, this->b_, old);
  EXPECT_EQ(this->a_.told(old).receives, 0u);
  this->b_.io_->receive_start(now);
  EXPECT_TRUE(this->b_.until([&] { return this->b_.told(now).received == "hello"; }));
}

TYPED_TEST(IoMove, while_stopped) {
  this->build();
  Client client(this->a_.port_);
  const SocketId old = this->a_.accept_one();
  this->a_.io_->receive_start(old);
  client.write("one");
  ASSERT_TRUE(this->a_.until([&] { return this->a_.told(old).received == "one"; }));
  this->a_.io_->receive_stop(old);
  this->a_.settle();
  client.write("two");
  this->a_.settle();
  const SocketId now = this->move(this->a_, this->b_, old);
  EXPECT_EQ(this->a_.told(old).received, "one");
  this->b_.io_->receive_start(now);
  EXPECT_TRUE(this->b_.until([&] { return this->b_.told(now).received == "two"; }));
}

TYPED_TEST(IoMove, while_waiting_for_buffers) {
  this->build({.sockets_max = 16, .receive_buffers = 1, .receive_buffer_bytes = 64});
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::string> texts;
  for (uint32_t each = 0; each < 8; ++each) {
    clients.push_back(std::make_unique<Client>(this->a_.port_));
    texts.push_back(pattern(5'000, each));
    this->a_.io_->receive_start(this->a_.accept_one());
  }
  for (uint32_t each = 0; each < 8; ++each) clients[each]->write(texts[each]);
  for (int turns = 0; turns < 5; ++turns) this->a_.turn();
  for (const SocketId old : this->a_.accepted_) this->a_.io_->release(old);
  for (uint32_t each = 0; each < 8; ++each) {
    const SocketId old = this->a_.accepted_[each];
    const SocketId now = this->b_.adopt(this->a_.await_release(old));
    this->b_.io_->receive_start(now);
    clients[each]->finish();
    ASSERT_TRUE(this->b_.until([&] { return this->b_.told(now).ends == 1; }));
    EXPECT_TRUE(this->a_.told(old).received + this->b_.told(now).received == texts[each]) << each;
  }
  this->a_.settle(10);  // its queue holds none of them
}

// The kernel's readiness does not follow the old Io: it would spin, or name a stranger.
TYPED_TEST(IoMove, the_old_core_sleeps_while_the_new_one_receives) {
  this->build();
  Client client(this->a_.port_);
  const SocketId old = this->a_.accept_one();
  this->a_.io_->receive_start(old);
  this->a_.settle();
  const SocketId now = this->move(this->a_, this->b_, old);
  this->a_.settle();
  client.write("text");
  client.finish();
  const uint64_t before = this->a_.io_->statistics().enters;
  EXPECT_EQ(this->a_.turn(100 * base::ns_per_ms), 0u);
  EXPECT_LE(this->a_.io_->statistics().enters - before, 3u);
  this->b_.io_->receive_start(now);
  EXPECT_TRUE(this->b_.until([&] { return this->b_.told(now).ends == 1; }));
  EXPECT_EQ(this->b_.told(now).received, "text");
}

// ------------------------------------------------------------------------- how the peer ends

// Told before the move, in the middle of it, between the cores, or after it: the adopter hears it.
TYPED_TEST(IoMove, the_end_is_told_to_the_adopter) {
  this->build();
  for (uint32_t when = 0; when < 6; ++when) {
    Client client(this->a_.port_);
    const SocketId old = this->a_.accept_one();
    this->a_.io_->receive_start(old);
    if (when != 1) this->a_.settle(2);
    client.write("last");
    if (when < 3) client.finish();
    if (when == 0) {
      ASSERT_TRUE(this->a_.until([&] { return this->a_.told(old).ends == 1; }));
    }
    this->a_.io_->release(old);
    if (when == 3) client.finish();
    const int fd = this->a_.await_release(old);
    if (when == 4) client.finish();
    const SocketId now = this->b_.adopt(fd);
    this->b_.io_->receive_start(now);
    if (when == 5) client.finish();
    ASSERT_TRUE(this->b_.until([&] { return this->b_.told(now).ends == 1; }, 2'000)) << when;
    this->b_.settle(2);
    EXPECT_EQ(this->b_.told(now).ends, 1u) << when;
    EXPECT_EQ(this->b_.told(now).failures, 0u) << when;
    EXPECT_EQ(this->a_.told(old).ends, when == 0 ? 1u : 0u) << when;
    EXPECT_EQ(this->a_.told(old).received + this->b_.told(now).received, "last") << when;
    this->b_.close_and_wait(now);
  }
}

TYPED_TEST(IoMove, a_hang_up_is_told_to_the_adopter_while_stopped) {
  this->build();
  for (const bool told_before : {true, false}) {
    Client client(this->a_.port_);
    const SocketId old = this->a_.accept_one();
    client.write("unread");
    client.finish();
    if (told_before) {
      ASSERT_TRUE(this->a_.until([&] { return this->a_.told(old).hang_ups == 1; }));
    }
    const SocketId now = this->move(this->a_, this->b_, old);
    ASSERT_TRUE(this->b_.until([&] { return this->b_.told(now).hang_ups == 1; }, 2'000));
    this->b_.settle(2);
    EXPECT_EQ(this->b_.told(now).hang_ups, 1u);
    this->b_.io_->receive_start(now);
    ASSERT_TRUE(this->b_.until([&] { return this->b_.told(now).ends == 1; }, 2'000));
    EXPECT_EQ(this->b_.told(now).received, "unread");
    this->b_.close_and_wait(now);
  }
}

// The kernel tells of a reset once. Also where the old Io was told, the adopter must not take the
// connection for one that has only ended: it would wait for ever to be asked no more.
TYPED_TEST(IoMove, a_reset_is_told_to_the_adopter) {
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
      ASSERT_TRUE(this->a_.until([&] { return this->a_.told(old).failures == 1; }, 2'000));
    }
    if (moment == 1) client.reset();
    this->a_.io_->release(old);
    if (moment == 2) client.reset();
    const int fd = this->a_.await_release(old);
    const SocketId now = this->b_.adopt(fd);
    if (receiving_after) this->b_.io_->receive_start(now);
    if (moment == 3) client.reset();
    ASSERT_TRUE(this->b_.until([&] { return this->b_.told(now).failures == 1; }, 2'000)) << when;
    this->b_.settle(2);
    EXPECT_EQ(this->b_.told(now).failures, 1u) << when;
    EXPECT_EQ(this->b_.told(now).failure, -ECONNRESET) << when;
    EXPECT_EQ(this->b_.told(now).ends, 0u) << when;
    EXPECT_EQ(this->a_.told(old).failures, moment == 0 ? 1u : 0u) << when;
    this->b_.close_and_wait(now);
  }
}

// The old Io tried to send to a peer that had reset: nobody but a send heard of it.
TYPED_TEST(IoMove, a_reset_that_a_send_met_is_told_to_the_adopter) {
  this->build();
  Client client(this->a_.port_);
  const SocketId old = this->a_.accept_one();
  client.reset();
  const std::string text = "lost";
  this->a_.io_->send(old, bytes_of(text));
  ASSERT_TRUE(this->a_.until([&] { return this->a_.told(old).sents == 1; }));
  EXPECT_LT(this->a_.told(old).sent_result, 0);
  const SocketId now = this->move(this->a_, this->b_, old);
  EXPECT_TRUE(this->b_.until([&] { return this->b_.told(now).failures == 1; }, 2'000));
}

// ------------------------------------------------------------------------- slots and descriptors

TYPED_TEST(IoMove, close_of_a_socket_that_is_being_released_wins) {
  this->build();
  for (uint32_t calls = 0; calls < 16; ++calls) {
    Client client(this->a_.port_);
    const SocketId socket = this->a_.accept_one();
    if (calls & 1) this->a_.io_->receive_start(socket);
    if (calls & 2) this->a_.turn(0);
    if (calls & 4) client.write("bytes under way");
    if (calls & 8) this->a_.io_->receive_stop(socket);
    this->a_.io_->release(socket);
    this->a_.io_->close(socket);
    ASSERT_TRUE(this->a_.until([&] { return this->a_.told(socket).closes == 1; }, 2'000)) << calls;
    this->a_.settle(2);
    EXPECT_EQ(this->a_.told(socket).releases, 0u) << calls;
    EXPECT_FALSE(this->a_.told(socket).after_closed) << calls;
    std::string got;
    const ssize_t end = this->a_.read_to_end(client, got);
    EXPECT_TRUE(end == 0 || end == -ECONNRESET) << calls << ": " << end;
  }
}

// The array has room for one event: of three that are ready to be released, two are not told yet.
TYPED_TEST(IoMove, close_wins_until_released_was_told) {
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
      for (const SocketId socket : sockets) count += this->a_.told(socket).releases;
      return count;
    };
    ASSERT_TRUE(this->a_.until([&] { return releases() == 1; }, 2'000));
    for (const SocketId socket : sockets) {
      if (this->a_.told(socket).releases == 0) this->a_.io_->close(socket);
    }
    this->a_.events_max_ = 512;
    this->a_.settle();
    EXPECT_EQ(releases(), 1u);
    for (const SocketId socket : sockets) {
      const Told& told = this->a_.told(socket);
      EXPECT_EQ(told.closes + told.releases, 1u);
      EXPECT_FALSE(told.after_closed);
      if (told.releases > 0) this->a_.io_->discard(told.descriptor);
    }
    for (auto& client : clients) {
      std::string got;
      EXPECT_EQ(client->read(got, 1, 0), 0);
    }
  }
}

TYPED_TEST(IoMove, a_close_after_the_move_shows_the_peer_the_end) {
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

TYPED_TEST(IoMove, without_a_free_slot_the_descriptor_stays_the_callers) {
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
  EXPECT_TRUE(this->b_.until([&] { return this->b_.told(now).received == "patient"; }));
}

TYPED_TEST(IoMove, a_slot_comes_back_with_another_generation) {
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

TYPED_TEST(IoMove, accepting_goes_on_after_a_release) {
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
        this->b_.until([&] { return this->b_.told(now).received == std::to_string(each); }));
  }
}

// What the kernel accepts before it hears that the last slot is gone must not be lost either.
TYPED_TEST(IoMove, accepting_pauses_while_an_adopted_socket_has_the_last_slot) {
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
  EXPECT_TRUE(this->b_.until([&] { return this->b_.told(next).received == "next"; }));
}

TYPED_TEST(IoMove, the_descriptor_keeps_its_options) {
  this->build();
  Client client(this->a_.port_);
  const int fd = this->a_.release(this->a_.accept_one());
  EXPECT_NE(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  this->a_.io_->discard(fd);
  std::string got;
  EXPECT_EQ(client.read(got, 1, 0), 0);
}

TYPED_TEST(IoMove, moves_leak_no_descriptor_and_no_slot) {
  this->build({.sockets_max = 4}, {.sockets_max = 4});
  this->a_.settle();
  const size_t before = open_descriptors();
  for (uint32_t round = 0; round < 500; ++round) {
    Client client(this->a_.port_);
    client.write("text");
    const SocketId old = this->a_.accept_one();
    if (round & 1) this->a_.io_->receive_start(old);
    if (round & 2) this->a_.turn(0);
    if (round & 4) client.reset();
    this->a_.io_->release(old);
    if (round % 5 == 0) {
      this->a_.io_->close(old);
      ASSERT_TRUE(this->a_.until([&] { return this->a_.told(old).closes == 1; }));
      continue;
    }
    const int fd = this->a_.await_release(old);
    if (round % 5 == 1) {
      this->a_.io_->discard(fd);
      continue;
    }
    const SocketId now = this->b_.adopt(fd);
    if (round & 8) this->b_.io_->receive_start(now);
    if (round & 16) this->b_.turn(0);
    this->b_.close_and_wait(now);
  }
  EXPECT_EQ(open_descriptors(), before);

  // An Io that goes takes along what it has not yet handed over.
  Client client(this->a_.port_);
  const SocketId last = this->a_.accept_one();
  this->a_.io_->receive_start(last);
  this->a_.settle(2);
  this->a_.io_->release(last);
  this->a_.io_.reset();
  std::string got;
  EXPECT_EQ(client.read(got, 1, 0), 0);
}

TYPED_TEST(IoMove, moves_allocate_nothing) {
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
