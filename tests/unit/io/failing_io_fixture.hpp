// A kernel back end below which calls fail, with clients that it must still serve, or serve again.
// Shape:  idleness is counted in calls, not in time.
#pragma once

#include <optional>

#include "io_fixture.hpp"
#include "support/failing_calls.hpp"

namespace sluice::io::test {

using sluice::test::Call;
using sluice::test::calls_made;
using sluice::test::FailingCall;
using sluice::test::one_byte;
using sluice::test::ReplacedFile;
using sluice::test::Times;

inline constexpr int64_t wait_ns = 50 * base::ns_per_ms;
// Of a poll() that waits so long: a few, because rings of earlier tests interrupt waits when they
// end. One that spins makes thousands.
inline constexpr uint64_t enters_while_asleep = 20;

template <typename Backend>
class FailingIoTest : public IoTest<Backend> {
 protected:
  static constexpr bool is_uring = std::is_same_v<Backend, UringIo>;
  static constexpr Call accepting = is_uring ? Call::op_accept : Call::accept4;
  static constexpr Call receiving = is_uring ? Call::op_recv : Call::recv;
  static constexpr Call connecting = is_uring ? Call::op_connect : Call::connect;
  static constexpr Call sending = is_uring ? Call::op_send : Call::send;

  // How many calls wait or submit in a poll() that has nothing to do.
  uint64_t enters_in_one_wait() {
    const uint64_t before = this->io_->statistics().enters;
    this->poll_once(wait_ns);
    return this->io_->statistics().enters - before;
  }

  // The same where events may end a poll() early.
  uint64_t enters_within(int64_t duration_ns) {
    const uint64_t before = this->io_->statistics().enters;
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(duration_ns);
    while (std::chrono::steady_clock::now() < end) this->poll_once(wait_ns);
    return this->io_->statistics().enters - before;
  }

  // The socket of this client; others may have been accepted before it.
  SocketId socket_of(const Client& client) {
    const std::string port = ":" + std::to_string(client.own_port());
    std::optional<SocketId> found;
    EXPECT_TRUE(this->until([&] {
      for (const SocketId socket : this->accepted_) {
        if (this->reported(socket).closes > 0) continue;
        if (this->io_->peer(socket).ends_with(port)) found = socket;
      }
      return found.has_value();
    }));
    return found.value();
  }

  void expect_received_whole(Client& client, SocketId socket) {
    const std::string text = pattern(100'000);
    this->io_->receive_start(socket);
    EXPECT_TRUE(this->write_all(client, text));
    EXPECT_TRUE(this->until([&] { return this->reported(socket).received.size() == text.size(); }));
    EXPECT_EQ(this->reported(socket).received, text);
  }

  void expect_sent_whole(Client& client, SocketId socket) {
    const std::string text = pattern(100'000, 2);
    this->io_->send(socket, bytes_of(text));
    EXPECT_TRUE(this->until([&] { return this->reported(socket).sents == 1; }));
    EXPECT_EQ(this->reported(socket).sent_result, static_cast<int32_t>(text.size()));
    std::string got;
    EXPECT_TRUE(this->until([&] {
      while (client.read(got) > 0) {
      }
      return got.size() == text.size();
    }));
    EXPECT_EQ(got, text);
  }

  void expect_new_client_is_served() {
    Client client(this->port_);
    const SocketId socket = socket_of(client);
    expect_received_whole(client, socket);
    expect_sent_whole(client, socket);
  }

  void expect_refused_connection_fails_alone(int error) {
    SCOPED_TRACE(std::strerror(error));
    const FailingCall failing(connecting, error, {.failing = 1});
    const SocketId socket = this->connect_to(this->port_);
    ASSERT_TRUE(this->until([&] { return this->reported(socket).failures == 1; }));
    EXPECT_EQ(this->reported(socket).failure, -error);
    EXPECT_EQ(this->reported(socket).connects, 0u);
    this->close_and_wait(socket);
  }

  // `watching`: the call by which it learns that the peer of a socket hangs up.
  void expect_unwatched_fails_alone(Call watching, int error) {
    SCOPED_TRACE(std::strerror(error));
    rebuild();
    this->settle();
    std::optional<FailingCall> failing(std::in_place, watching, error);
    const Client client(this->port_);
    const SocketId socket = this->accept_one();
    ASSERT_TRUE(this->until([&] { return this->reported(socket).failures == 1; }));
    EXPECT_EQ(this->reported(socket).failure, -error);
    EXPECT_LE(enters_in_one_wait(), enters_while_asleep);
    failing.reset();
    this->close_and_wait(socket);
    expect_new_client_is_served();
  }

  // Builds it anew: the last one's sockets are gone.
  void rebuild() { rebuild(this->small()); }
  void rebuild(Options options) {
    this->io_.reset();
    this->accepted_.clear();
    this->reports_.clear();
    this->accept_failures_ = 0;
    this->refusals_ = 0;
    this->build(std::move(options));
  }
};

}  // namespace sluice::io::test
