// A connection moves between two Ios of a kind, over real sockets: release(), then adopt().
// Whatever the moment, each byte arrives once and in order.
#include <algorithm>
#include <atomic>
#include <thread>

#include "io_move_fixture.hpp"

namespace sluice::io::test {
namespace {

TYPED_TEST_SUITE(IoMove, Backends, BackendNames);

TYPED_TEST(IoMove, bytes_before_during_and_after_arrive_once_and_in_order) {
  this->build();
  Client client(this->a_.port_);
  const SocketId old = this->a_.accept_one();
  this->a_.io_->receive_start(old);
  client.write("before ");
  ASSERT_TRUE(this->a_.until([&] { return this->a_.reported(old).received == "before "; }));
  client.write("during ");
  this->a_.io_->release(old);
  client.write("and ");
  const SocketId now = this->b_.adopt(this->a_.await_release(old));
  client.write("after");
  this->b_.settle(2);
  EXPECT_EQ(this->b_.reported(now).receives, 0u);  // not before receive_start()
  this->b_.io_->receive_start(now);
  const std::string all = "before during and after";
  ASSERT_TRUE(this->b_.until([&] {
    return this->a_.reported(old).received.size() + this->b_.reported(now).received.size() >=
           all.size();
  }));
  EXPECT_EQ(this->a_.reported(old).received + this->b_.reported(now).received, all);

  const std::string answer = "answer";
  this->b_.io_->send(now, bytes_of(answer));
  ASSERT_TRUE(this->b_.until([&] { return this->b_.reported(now).sents == 1; }));
  this->b_.io_->close(now);
  std::string got;
  EXPECT_EQ(this->b_.read_to_end(client, got), 0);
  EXPECT_EQ(got, answer);
  EXPECT_FALSE(this->a_.reported(old).after_closed);
}

// More pieces have been received than the array has room for: those come before `released`, in an
// earlier poll().
TYPED_TEST(IoMove, received_bytes_come_before_released) {
  const std::string text = pattern(640);
  for (const size_t room : {size_t{1}, size_t{4}, size_t{512}}) {
    this->build({.sockets_max = 4, .receive_buffers = 16, .receive_buffer_bytes = 64});
    Client client(this->a_.port_);
    const SocketId old = this->a_.accept_one();
    this->a_.io_->receive_start(old);
    this->a_.settle(2);
    client.write(text);
    this->a_.events_max_ = 1;
    ASSERT_TRUE(this->a_.until([&] { return this->a_.reported(old).receives == 1; }));
    this->a_.io_->release(old);
    this->a_.events_max_ = room;
    const SocketId now = this->b_.adopt(this->a_.await_release(old));
    this->a_.events_max_ = 512;
    if (this->a_.io_->name() == "uring") {
      EXPECT_GT(this->a_.reported(old).receives, 1u);
    }
    this->b_.io_->receive_start(now);
    client.finish();
    ASSERT_TRUE(this->b_.until([&] { return this->b_.reported(now).ends == 1; }));
    EXPECT_TRUE(this->a_.reported(old).received + this->b_.reported(now).received == text) << room;
  }
}

// An event that was noted, but had no room in the array, is left to the adopter as well.
TYPED_TEST(IoMove, only_the_adopter_sees_an_end_that_was_not_reported_yet) {
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
    const auto reported_count = [&](SocketId socket) {
      return this->a_.reported(socket).ends + this->a_.reported(socket).failures;
    };
    ASSERT_TRUE(this->a_.until([&] {
      return std::ranges::any_of(sockets, [&](auto id) { return reported_count(id) == 1; });
    }));
    for (const SocketId old : sockets) this->a_.io_->release(old);
    for (const SocketId old : sockets) {
      const SocketId now = this->b_.adopt(this->a_.await_release(old));
      this->b_.io_->receive_start(now);
      const Reports& reported = this->b_.reported(now);
      ASSERT_TRUE(this->b_.until([&] { return reported.ends + reported.failures == 1; }, 2'000));
      EXPECT_EQ(reported.failures, reset ? 1u : 0u);
    }
    uint32_t reported_here = 0;
    for (const SocketId old : sockets) reported_here += reported_count(old);
    EXPECT_EQ(reported_here, 1u);
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

// The calls of the connection's holder before it is released again.
template <typename Side>
void be_busy(Side& side, SocketId socket, uint32_t how, size_t bytes_wanted) {
  Io& io = *side.io_;
  const std::string note(1, static_cast<char>('a' + how));
  side.events_max_ = how == 0 ? 2 : 512;  // then more has been received than is reported
  switch (how) {
    case 0:  // in full flow
      io.receive_start(socket);
      ASSERT_TRUE(
          side.until([&] { return side.reported(socket).received.size() >= bytes_wanted; }));
      return;
    case 1:  // asked for, not yet submitted
      io.receive_start(socket);
      return;
    case 2:  // stopping
      io.receive_start(socket);
      side.poll_once(0);
      io.receive_stop(socket);
      return;
    case 3:  // never started
      return;
    case 4:  // restarted
      io.receive_start(socket);
      side.poll_once(0);
      io.receive_stop(socket);
      side.poll_once(0);
      io.receive_start(socket);
      return;
    default:  // just after a send
      io.receive_start(socket);
      io.send(socket, bytes_of(note));
      ASSERT_TRUE(side.until([&] { return side.reported(socket).sents == 1; }));
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
      received += side->reported(socket).received;
      EXPECT_FALSE(side->reported(socket).after_closed);
      EXPECT_EQ(side->reported(socket).ends + side->reported(socket).failures, 0u);
      side->reports_.erase({socket});  // a late event would fail the test
      socket = next;
      std::swap(side, other);
    }
    writer.allow(text.size());
    side->io_->receive_start(socket);
    ASSERT_TRUE(side->until([&] { return side->reported(socket).ends == 1; }));
    received += side->reported(socket).received;
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
  // The loop of one thread until the peer has ended.
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
  EXPECT_EQ(this->a_.reported(old).receives, 0u);
  this->b_.io_->receive_start(now);
  EXPECT_TRUE(this->b_.until([&] { return this->b_.reported(now).received == "hello"; }));
}

TYPED_TEST(IoMove, while_stopped) {
  this->build();
  Client client(this->a_.port_);
  const SocketId old = this->a_.accept_one();
  this->a_.io_->receive_start(old);
  client.write("one");
  ASSERT_TRUE(this->a_.until([&] { return this->a_.reported(old).received == "one"; }));
  this->a_.io_->receive_stop(old);
  this->a_.settle();
  client.write("two");
  this->a_.settle();
  const SocketId now = this->move(this->a_, this->b_, old);
  EXPECT_EQ(this->a_.reported(old).received, "one");
  this->b_.io_->receive_start(now);
  EXPECT_TRUE(this->b_.until([&] { return this->b_.reported(now).received == "two"; }));
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
  for (int polls = 0; polls < 5; ++polls) this->a_.poll_once();
  for (const SocketId old : this->a_.accepted_) this->a_.io_->release(old);
  for (uint32_t each = 0; each < 8; ++each) {
    const SocketId old = this->a_.accepted_[each];
    const SocketId now = this->b_.adopt(this->a_.await_release(old));
    this->b_.io_->receive_start(now);
    clients[each]->finish();
    ASSERT_TRUE(this->b_.until([&] { return this->b_.reported(now).ends == 1; }));
    EXPECT_TRUE(this->a_.reported(old).received + this->b_.reported(now).received == texts[each])
        << each;
  }
  this->a_.settle(10);  // its queue holds none of them
}

// The kernel's readiness does not follow the old Io: it would spin, or name another socket.
TYPED_TEST(IoMove, the_old_worker_sleeps_while_the_new_one_receives) {
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
  EXPECT_EQ(this->a_.poll_once(100 * base::ns_per_ms), 0u);
  EXPECT_LE(this->a_.io_->statistics().enters - before, 3u);
  this->b_.io_->receive_start(now);
  EXPECT_TRUE(this->b_.until([&] { return this->b_.reported(now).ends == 1; }));
  EXPECT_EQ(this->b_.reported(now).received, "text");
}

}  // namespace
}  // namespace sluice::io::test
