// What both back ends do when the kernel refuses a call: they report it once, try again later, and
// go on when the cause has ended; meanwhile they sleep.
// Method: tests/support/failing_calls.hpp.
#include <optional>

#include "failing_io_fixture.hpp"

namespace sluice::io::test {
namespace {

template <typename Backend>
class FailingIo : public FailingIoTest<Backend> {};
TYPED_TEST_SUITE(FailingIo, Backends, BackendNames);

// Out of descriptors or memory: the caller learns at once, and there is no socket.
TYPED_TEST(FailingIo, a_connection_without_a_socket_never_begins) {
  this->build(this->small());
  this->settle();
  const size_t descriptors = open_descriptors();
  for (const Call call : {Call::socket, Call::setsockopt}) {
    for (const int error : {EMFILE, ENOBUFS, EAFNOSUPPORT}) {
      const FailingCall failing(call, error, {.failing = 1});
      const auto socket = this->try_connect(this->port_);
      ASSERT_FALSE(socket);
      EXPECT_EQ(socket.error(), -error);
    }
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  const SocketId socket = this->connect_to(this->port_);
  EXPECT_TRUE(this->until([&] { return this->reported(socket).connects == 1; }));
}

// Out of descriptors or memory, or forbidden: reported, tried again after a pause.
TYPED_TEST(FailingIo, accepting_pauses_while_it_fails_and_recovers) {
  for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM, EPERM, EACCES, EINVAL, ENOSYS}) {
    SCOPED_TRACE(std::strerror(error));
    std::optional<FailingCall> failing(std::in_place, this->accepting, error);
    this->rebuild();
    const Client client(this->port_);
    ASSERT_TRUE(this->until([&] { return this->accept_failures_ > 0; }));
    EXPECT_EQ(this->accept_failure_, -error);
    EXPECT_LE(this->enters_in_one_wait(), enters_while_asleep);
    EXPECT_LE(this->accept_failures_, 2u);
    failing.reset();
    this->expect_new_client_is_served();
  }
}

// The one connection failed, the next ones are accepted without a pause.
TYPED_TEST(FailingIo, a_connection_that_is_gone_before_it_is_accepted_delays_no_other) {
  for (const int error : {ECONNABORTED, EINTR, EAGAIN, EPROTO, ENETDOWN}) {
    SCOPED_TRACE(std::strerror(error));
    const FailingCall failing(this->accepting, error, {.failing = 1});
    this->rebuild();
    this->expect_new_client_is_served();
    EXPECT_EQ(this->accept_failures_, 0u);
  }
}

TYPED_TEST(FailingIo, a_receive_that_is_interrupted_or_would_block_loses_nothing) {
  for (const int error : {EINTR, EAGAIN}) {
    SCOPED_TRACE(std::strerror(error));
    this->rebuild();
    Client client(this->port_);
    const SocketId socket = this->accept_one();
    const FailingCall failing(this->receiving, error, {.failing = 3});
    this->expect_received_whole(client, socket);
    EXPECT_GT(failing.failed_count(), 0u);
  }
}

TYPED_TEST(FailingIo, a_receive_without_memory_fails_its_connection_alone) {
  this->build(this->small());
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  {
    const FailingCall failing(this->receiving, ENOMEM, {.failing = 1});
    this->io_->receive_start(socket);
    client.write("x");
    ASSERT_TRUE(this->until([&] { return this->reported(socket).failures == 1; }));
  }
  EXPECT_EQ(this->reported(socket).failure, -ENOMEM);
  EXPECT_LE(this->enters_in_one_wait(), enters_while_asleep);
  this->expect_new_client_is_served();
  this->close_and_wait(socket);
}

TYPED_TEST(FailingIo, short_and_interrupted_sends_arrive_whole) {
  for (const int error : {one_byte, EINTR, EAGAIN}) {
    SCOPED_TRACE(error);
    this->rebuild();
    Client client(this->port_);
    const SocketId socket = this->accept_one();
    const FailingCall failing(this->sending, error, {.failing = 20});
    this->expect_sent_whole(client, socket);
    EXPECT_GT(failing.failed_count(), 0u);
  }
}

TYPED_TEST(FailingIo, a_send_without_memory_fails_its_connection_alone) {
  this->build(this->small());
  Client client(this->port_);
  const SocketId socket = this->accept_one();
  {
    const FailingCall failing(this->sending, ENOBUFS, {.failing = 1});
    this->io_->send(socket, bytes_of("answer"));
    ASSERT_TRUE(this->until([&] { return this->reported(socket).sents == 1; }));
  }
  EXPECT_EQ(this->reported(socket).sent_result, -ENOBUFS);
  EXPECT_EQ(this->reported(socket).untaken_bytes, 6u);
  this->expect_new_client_is_served();
  this->close_and_wait(socket);
}

// No memory, completions that overflow, a sandbox: reported with each try, of which there are few.
TYPED_TEST(FailingIo, sleeps_while_the_kernel_refuses_to_wait_and_recovers) {
  for (const int error : {EAGAIN, ENOMEM, EBUSY, EPERM, ENOSYS, EINVAL}) {
    SCOPED_TRACE(std::strerror(error));
    this->rebuild();
    Client client(this->port_);
    const SocketId socket = this->accept_one();
    {
      const FailingCall submit(Call::io_uring_submit, error);
      const FailingCall get(Call::io_uring_submit_and_get_events, error);
      const FailingCall wait(Call::io_uring_submit_and_wait_timeout, error);
      const FailingCall precise(Call::epoll_pwait2, error);
      const FailingCall coarse(Call::epoll_wait, error);
      this->io_->receive_start(socket);
      client.write("while it fails");
      EXPECT_LE(this->enters_within(6 * wait_ns), enters_while_asleep);
      EXPECT_GT(this->refusals_, 0u);
      EXPECT_EQ(this->refusal_, -error);
      EXPECT_TRUE(this->reported(socket).received.empty());
    }
    EXPECT_TRUE(this->until([&] { return this->reported(socket).received == "while it fails"; }));
    this->expect_sent_whole(client, socket);
    const uint32_t reported = this->refusals_;
    EXPECT_LE(this->enters_in_one_wait(), enters_while_asleep);
    EXPECT_EQ(this->refusals_, reported);
  }
}

// A back end is given up while the kernel takes nothing: a server that is stopped must end.
TYPED_TEST(FailingIo, is_destroyed_while_the_kernel_refuses_to_wait) {
  this->rebuild();
  const Client client(this->port_);
  this->io_->receive_start(this->accept_one());
  this->settle();
  const FailingCall submit(Call::io_uring_submit, EPERM);
  const FailingCall get(Call::io_uring_submit_and_get_events, EPERM);
  const FailingCall wait(Call::io_uring_submit_and_wait_timeout, EPERM);
  const uint64_t before = calls_made(Call::io_uring_submit_and_wait_timeout);
  this->io_.reset();
  EXPECT_LE(calls_made(Call::io_uring_submit_and_wait_timeout) - before, enters_while_asleep);
}

// More events than a poll() has room for, the wake-up the last of them.
TYPED_TEST(FailingIo, a_wake_up_behind_other_events_is_not_lost) {
  this->events_max_ = 2;
  this->rebuild();
  this->settle();
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t round = 1; round <= 3; ++round) {
    for (int each = 0; each < 3; ++each) {
      clients.push_back(std::make_unique<Client>(this->port_));
    }
    this->io_->wake();
    EXPECT_TRUE(this->until([&] { return this->wakes_ == round; }));
    EXPECT_TRUE(this->until([&] { return this->accepted_.size() == clients.size(); }));
  }
}

TYPED_TEST(FailingIo, is_not_built_without_an_eventfd_or_memory) {
  const auto error_with = [&](Call call, int error, uint32_t skipped) {
    const FailingCall failing(call, error, {.skipped = skipped});
    try {
      this->build(this->small());
    } catch (const std::system_error& failure) {
      return std::pair(failure.code().value(), std::string(failure.what()));
    }
    return std::pair(0, std::string("built"));
  };
  EXPECT_EQ(error_with(Call::eventfd, EMFILE, 0).first, EMFILE);
  const auto [error, text] = error_with(Call::mmap64, ENOMEM, 0);
  EXPECT_EQ(error, ENOMEM);
  EXPECT_NE(text.find("MiB of address space for the"), std::string::npos) << text;
  this->build(this->small());
  this->expect_new_client_is_served();
}

}  // namespace
}  // namespace sluice::io::test
