// Connections that this side begins: they end up as accepted ones do, or fail once with the reason;
// and they can be closed at any moment.
// Method: the other end is a socket of the same back end, or a plain one.
#include <algorithm>

#include "allocation_counter.hpp"
#include "io_fixture.hpp"

namespace sluice::io::test {
namespace {

template <typename Backend>
class IoConnect : public IoTest<Backend> {
 protected:
  struct Ends {
    SocketId near;
    SocketId far;
  };

  // A connection whose ends both belong to this back end.
  Ends connect_to_itself() {
    const SocketId near = this->connect_to(this->port_);
    const SocketId far = this->accept_one();
    EXPECT_TRUE(this->until([&] { return this->reported(near).connects == 1; }));
    return {near, far};
  }

  void expect_fails(const PeerAddress& peer, int error) {
    SCOPED_TRACE(peer.text());
    const SocketId socket = this->io_->connect(peer).value();
    this->reports_[{socket}] = {};
    ASSERT_TRUE(this->until([&] { return this->reported(socket).failures > 0; }));
    EXPECT_EQ(this->reported(socket).failure, -error);
    this->settle();
    this->close_and_wait(socket);
    this->settle();
    EXPECT_EQ(this->reported(socket).failures, 1u);
    EXPECT_EQ(this->reported(socket).connects, 0u);
    EXPECT_FALSE(this->reported(socket).after_closed);
  }
};
TYPED_TEST_SUITE(IoConnect, Backends, BackendNames);

// Nobody accepts at its port, and its queue is full: connecting takes until this side closes.
class SilentListener {
 public:
  SilentListener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(fd_.get(), raw, size), 0);
    EXPECT_EQ(::listen(fd_.get(), 0), 0);
    EXPECT_EQ(::getsockname(fd_.get(), raw, &size), 0);
    for (FileDescriptor& each : queued_) {
      each.reset(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      ::connect(each.get(), raw, size);
    }
    port_ = ntohs(address.sin_port);
  }

  uint16_t port() const { return port_; }

 private:
  FileDescriptor fd_;
  std::array<FileDescriptor, 4> queued_;
  uint16_t port_ = 0;
};

uint16_t port_without_listener() {
  return listen_on({.address = "127.0.0.1"}).port;
}

TYPED_TEST(IoConnect, carries_bytes_both_ways_and_both_ends) {
  this->build();
  const auto ends = this->connect_to_itself();
  const SocketId near = ends.near;  // clang 14 captures no structured binding
  const SocketId far = ends.far;
  this->io_->receive_start(near);
  this->io_->receive_start(far);
  const std::string question = pattern(1 << 20, 1);
  const std::string answer = pattern(1 << 20, 2);
  this->io_->send(near, bytes_of(question));
  this->io_->send(far, bytes_of(answer));
  ASSERT_TRUE(this->until([&] {
    return this->reported(far).received.size() == question.size() &&
           this->reported(near).received.size() == answer.size() &&
           this->reported(near).sents == 1 && this->reported(far).sents == 1;
  }));
  EXPECT_EQ(this->reported(far).received, question);
  EXPECT_EQ(this->reported(near).received, answer);
  this->io_->send_finish(near);
  ASSERT_TRUE(this->until([&] { return this->reported(far).ends == 1; }));
  this->io_->send_finish(far);
  ASSERT_TRUE(this->until([&] { return this->reported(near).ends == 1; }));
  this->close_and_wait(near);
  this->close_and_wait(far);
  EXPECT_EQ(this->reported(near).connects, 1u);
}

TYPED_TEST(IoConnect, knows_its_peer) {
  this->build();
  const auto ends = this->connect_to_itself();
  const SocketId near = ends.near;  // clang 14 captures no structured binding
  const SocketId far = ends.far;
  EXPECT_EQ(this->io_->peer(near), this->local(this->port_).text());
}

TYPED_TEST(IoConnect, receives_nothing_before_it_is_asked_to) {
  this->build();
  const auto ends = this->connect_to_itself();
  const SocketId near = ends.near;  // clang 14 captures no structured binding
  const SocketId far = ends.far;
  const std::string text = pattern(1'000);
  this->io_->send(far, bytes_of(text));
  this->settle();
  EXPECT_EQ(this->reported(near).receives, 0u);
  this->io_->receive_start(near);
  ASSERT_TRUE(this->until([&] { return this->reported(near).received == text; }));
}

TYPED_TEST(IoConnect, has_the_options_of_accepted_connections) {
  this->build();
  const auto ends = this->connect_to_itself();
  const SocketId near = ends.near;  // clang 14 captures no structured binding
  const SocketId far = ends.far;
  this->io_->release(near);
  this->io_->release(far);
  ASSERT_TRUE(this->until(
      [&] { return this->reported(near).releases + this->reported(far).releases == 2; }));
  const FileDescriptor ours(this->reported(near).descriptor);
  const FileDescriptor theirs(this->reported(far).descriptor);
  const auto value_of = [](const FileDescriptor& fd, const SocketOption& option) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(::getsockopt(fd.get(), option.level, option.option, &value, &size), 0);
    return value;
  };
  for (const SocketOption& option : connection_options) {
    EXPECT_EQ(value_of(ours, option), option.value) << option.name;
    EXPECT_EQ(value_of(theirs, option), option.value) << option.name;
  }
}

TYPED_TEST(IoConnect, reaches_ipv6) {
  Options options = this->small();
  Listening listening = listen_on({});
  options.listeners = std::move(listening.sockets);
  this->io_ = std::make_unique<TypeParam>(std::move(options));
  this->io_->accept_start(0);
  const PeerAddress peer = PeerAddress::parse("[::1]:" + std::to_string(listening.port)).value();
  const auto socket = this->io_->connect(peer);
  if (!socket) GTEST_SKIP() << "this machine has no IPv6";
  this->reports_[{*socket}] = {};
  Reports& reported = this->reported(*socket);
  ASSERT_TRUE(this->until([&] { return reported.connects + reported.failures > 0; }));
  if (reported.failure == -EADDRNOTAVAIL) GTEST_SKIP() << "this machine has no ::1";
  EXPECT_EQ(this->io_->peer(*socket), peer.text());
  EXPECT_TRUE(this->io_->peer(this->accept_one_of(0)).starts_with("[::1]:"));
}

TYPED_TEST(IoConnect, is_refused_where_nobody_listens) {
  this->build();
  this->expect_fails(this->local(port_without_listener()), ECONNREFUSED);
}

// The kernel refuses at once what it has no way to.
TYPED_TEST(IoConnect, reports_an_unreachable_peer) {
  this->build();
  this->expect_fails(PeerAddress::parse("255.255.255.255:8080").value(), ENETUNREACH);
}

TYPED_TEST(IoConnect, a_failed_one_frees_its_slot_for_the_next) {
  this->build({.sockets_max = 2});
  const PeerAddress nobody = this->local(port_without_listener());
  this->settle();
  const size_t descriptors = open_descriptors();
  for (int each = 0; each < 8; ++each) this->expect_fails(nobody, ECONNREFUSED);
  EXPECT_EQ(open_descriptors(), descriptors);
  this->connect_to_itself();
}

TYPED_TEST(IoConnect, is_closed_while_it_connects) {
  this->build(this->small());
  const SilentListener silent;
  this->settle();
  const size_t descriptors = open_descriptors();
  for (int polls = 0; polls < 4; ++polls) {
    const SocketId socket = this->connect_to(silent.port());
    for (int each = 0; each < polls; ++each) this->poll_once(base::ns_per_ms);
    EXPECT_EQ(this->reported(socket).connects + this->reported(socket).failures, 0u);
    this->close_and_wait(socket);
    this->settle(2);
    EXPECT_EQ(this->reported(socket).closes, 1u);
    EXPECT_EQ(this->reported(socket).connects + this->reported(socket).failures, 0u) << polls;
    EXPECT_FALSE(this->reported(socket).after_closed);
  }
  EXPECT_EQ(open_descriptors(), descriptors);
}

// The close wins, whether the connection stood already, was refused already, or neither.
TYPED_TEST(IoConnect, a_close_at_once_is_the_last_word) {
  this->build(this->small());
  const uint16_t nobody = port_without_listener();
  for (int each = 0; each < 50; ++each) {
    const SocketId socket = this->connect_to(each % 2 == 0 ? this->port_ : nobody);
    if (each % 3 == 0) this->poll_once(0);
    const Reports before = this->reported(socket);
    this->close_and_wait(socket);
    EXPECT_EQ(this->reported(socket).connects, before.connects);
    EXPECT_EQ(this->reported(socket).failures, before.failures);
    this->settle(1);
    for (const SocketId accepted : std::exchange(this->accepted_, {})) {
      this->close_and_wait(accepted);
    }
  }
}

TYPED_TEST(IoConnect, sockets_that_connect_end_with_the_back_end) {
  const size_t descriptors = open_descriptors();
  {
    const SilentListener silent;
    this->build(this->small());
    this->connect_to(silent.port());
    this->poll_once(base::ns_per_ms);
    this->connect_to(silent.port());
    this->io_.reset();
  }
  EXPECT_EQ(open_descriptors(), descriptors);
}

TYPED_TEST(IoConnect, needs_a_free_slot) {
  this->build({.sockets_max = 2});
  const SilentListener silent;
  const SocketId first = this->connect_to(silent.port());
  this->connect_to(silent.port());
  const auto third = this->try_connect(silent.port());
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error(), no_free_slot);
  this->close_and_wait(first);
  const auto next = this->try_connect(silent.port());
  ASSERT_TRUE(next);
  EXPECT_EQ(next->index, first.index);
  EXPECT_NE(next->generation, first.generation);
}

// Slots are shared: while outgoing connections hold them all, accepting pauses.
TYPED_TEST(IoConnect, accepting_goes_on_when_a_slot_is_free_again) {
  this->build({.sockets_max = 1});
  const SilentListener silent;
  const SocketId socket = this->connect_to(silent.port());
  Client client(this->port_);
  client.write("patient");
  this->settle();
  EXPECT_TRUE(this->accepted_.empty());
  this->close_and_wait(socket);
  const SocketId accepted = this->accept_one_of(0);
  this->io_->receive_start(accepted);
  EXPECT_TRUE(this->until([&] { return this->reported(accepted).received == "patient"; }));
}

TYPED_TEST(IoConnect, many_connect_at_once_and_each_has_its_own_peer) {
  constexpr size_t many = 200;
  this->build({.sockets_max = 2 * many});
  this->events_max_ = 7;  // events wait for room
  std::vector<SocketId> near;
  for (size_t each = 0; each < many; ++each) near.push_back(this->connect_to(this->port_));
  ASSERT_TRUE(this->until([&] {
    return this->accepted_.size() == many && std::ranges::all_of(near, [&](SocketId socket) {
             return this->reported(socket).connects == 1;
           });
  }));
  std::vector<std::string> texts;
  for (size_t each = 0; each < many; ++each) texts.push_back("from " + std::to_string(each));
  for (size_t each = 0; each < many; ++each) this->io_->send(near[each], bytes_of(texts[each]));
  for (const SocketId far : this->accepted_) this->io_->receive_start(far);
  ASSERT_TRUE(this->until([&] {
    return std::ranges::all_of(this->accepted_,
                               [&](SocketId far) { return !this->reported(far).received.empty(); });
  }));
  std::vector<std::string> got;
  for (const SocketId far : this->accepted_) got.push_back(this->reported(far).received);
  std::ranges::sort(got);
  std::ranges::sort(texts);
  EXPECT_EQ(got, texts);
}

TYPED_TEST(IoConnect, to_a_peer_that_closes_at_once_reports_its_end) {
  this->build();
  const Listening listening = listen_on({.address = "127.0.0.1"});
  const SocketId socket = this->connect_to(listening.port);
  FileDescriptor peer;
  ASSERT_TRUE(this->until([&] {
    peer.reset(::accept4(listening.sockets[0].get(), nullptr, nullptr, SOCK_CLOEXEC));
    return peer.is_open();
  }));
  peer.reset();
  ASSERT_TRUE(this->until([&] { return this->reported(socket).connects == 1; }));
  ASSERT_TRUE(this->until([&] { return this->reported(socket).hang_ups == 1; }));
  this->io_->receive_start(socket);
  ASSERT_TRUE(this->until([&] { return this->reported(socket).ends == 1; }));
  EXPECT_EQ(this->reported(socket).failures, 0u);
}

// It may have connected before, or not.
TYPED_TEST(IoConnect, to_a_peer_that_resets_at_once_fails_once) {
  this->build();
  Listening listening = listen_on({.address = "127.0.0.1"});
  const SocketId socket = this->connect_to(listening.port);
  this->poll_once(0);
  listening.sockets.clear();  // resets what is queued
  ASSERT_TRUE(this->until([&] { return this->reported(socket).failures == 1; }));
  EXPECT_LE(this->reported(socket).connects, 1u);
  this->settle();
  EXPECT_EQ(this->reported(socket).failures, 1u);
  this->close_and_wait(socket);
}

TYPED_TEST(IoConnect, is_not_quiet_before_a_poll_has_begun_it) {
  this->build();
  this->settle();
  EXPECT_TRUE(this->io_->is_quiet());
  this->connect_to(this->port_);
  EXPECT_FALSE(this->io_->is_quiet());
}

TYPED_TEST(IoConnect, ends_a_wait) {
  this->build();
  this->settle();
  const SocketId socket = this->connect_to(this->port_);
  const auto begin = std::chrono::steady_clock::now();
  while (this->reported(socket).connects == 0) this->poll_once(10 * base::ns_per_s);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TYPED_TEST(IoConnect, moves_to_another_worker_as_an_accepted_one_does) {
  this->build();
  const auto ends = this->connect_to_itself();
  const SocketId near = ends.near;  // clang 14 captures no structured binding
  const SocketId far = ends.far;
  this->io_->release(near);
  ASSERT_TRUE(this->until([&] { return this->reported(near).releases == 1; }));
  const SocketId moved = this->io_->adopt(this->reported(near).descriptor).value();
  this->reports_[{moved}] = {};
  this->io_->receive_start(moved);
  const std::string text = pattern(1'000);
  this->io_->send(far, bytes_of(text));
  EXPECT_TRUE(this->until([&] { return this->reported(moved).received == text; }));
}

TYPED_TEST(IoConnect, allocates_nothing) {
  this->build(this->small());
  const PeerAddress peer = this->local(this->port_);
  uint32_t closed = 0;
  const auto round = [&] {
    const SocketId socket = this->io_->connect(peer).value();
    const uint32_t before = closed;
    while (closed < before + 2) {
      const size_t count = this->io_->poll(this->events_, base::ns_per_ms);
      for (const Event& event : std::span(this->events_).first(count)) {
        if (event.kind == EventKind::connected) this->io_->close(socket);
        if (event.kind == EventKind::accepted) this->io_->receive_start(event.socket);
        if (event.kind == EventKind::end_of_stream) this->io_->close(event.socket);
        if (event.kind == EventKind::closed) ++closed;
      }
    }
  };
  round();
  const uint64_t before = allocations();
  for (int each = 0; each < 20; ++each) round();
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace sluice::io::test
