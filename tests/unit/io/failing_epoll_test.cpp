// epoll where the kernel is older or has reached a limit.
#include <optional>

#include "failing_io_fixture.hpp"
#include "io/probe.hpp"

namespace sluice::io::test {
namespace {

class FailingEpoll : public FailingIoTest<EpollIo> {};

// Linux before 5.11 has no epoll_pwait2; an old seccomp profile forbids what it does not know.
TEST_F(FailingEpoll, waits_in_milliseconds_without_epoll_pwait2) {
  for (const int error : {ENOSYS, EPERM}) {
    SCOPED_TRACE(std::strerror(error));
    const FailingCall failing(Call::epoll_pwait2, error);
    rebuild();
    settle();
    const auto begin = std::chrono::steady_clock::now();
    const uint64_t waits = calls_made(Call::epoll_wait);
    EXPECT_LE(enters_in_one_wait(), enters_while_asleep);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::nanoseconds(wait_ns));
    EXPECT_GT(calls_made(Call::epoll_wait), waits);
    expect_new_client_is_served();
    EXPECT_EQ(failing.failed_count(), 1u);  // it is asked once
  }
}

TEST_F(FailingEpoll, has_a_warning_without_epoll_pwait2) {
  const auto warnings = [] {
    return make_io({.backend = base::IoBackend::epoll}, {.sockets_max = 1}).warnings;
  };
  EXPECT_TRUE(warnings().empty());
  const FailingCall failing(Call::epoll_pwait2, ENOSYS);
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_TRUE(
      warnings()[0].starts_with("epoll_pwait2 does not work here (Function not implemented): "));
}

// Rounded down, the last part of a millisecond would be spent spinning.
TEST_F(FailingEpoll, a_wait_in_milliseconds_is_rounded_up) {
  const FailingCall failing(Call::epoll_pwait2, ENOSYS);
  rebuild();
  settle();
  const uint64_t before = calls_made(Call::epoll_wait);
  for (int each = 0; each < 10; ++each) poll_once(100'000);  // a tenth of a millisecond
  EXPECT_LE(calls_made(Call::epoll_wait) - before, 20 + enters_while_asleep);
}

TEST_F(FailingEpoll, an_interrupted_wait_is_resumed) {
  rebuild();
  settle();
  const FailingCall failing(Call::epoll_pwait2, EINTR, {.failing = 3});
  const uint64_t others = calls_made(Call::epoll_wait);
  const auto begin = std::chrono::steady_clock::now();
  poll_once(wait_ns);
  EXPECT_EQ(failing.failed_count(), 3u);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::nanoseconds(wait_ns));
  EXPECT_EQ(calls_made(Call::epoll_wait), others);
}

// A process that was stopped goes on with an interrupted wait: what its peers sent in time comes
// before the time-outs.
TEST_F(FailingEpoll, an_interrupted_wait_reports_what_has_arrived) {
  rebuild();
  Client client(port_);
  const SocketId socket = accept_one();
  io_->receive_start(socket);
  settle();
  client.write("x");
  const FailingCall failing(Call::epoll_pwait2, EINTR, {.failing = 1});
  poll_once(0);
  EXPECT_EQ(failing.failed_count(), 1u);
  EXPECT_EQ(reported(socket).received, "x");
  close_and_wait(socket);
}

TEST_F(FailingEpoll, is_not_built_where_it_cannot_wait) {
  const FailingCall precise(Call::epoll_pwait2, EPERM);
  const FailingCall coarse(Call::epoll_wait, EPERM);
  EXPECT_THROW(rebuild(), std::system_error);
}

TEST_F(FailingEpoll, is_not_built_without_a_descriptor_for_it) {
  for (const Call call : {Call::epoll_create1, Call::epoll_ctl}) {
    const FailingCall failing(call, EMFILE);
    EXPECT_THROW(rebuild(), std::system_error);
  }
}

TEST_F(FailingEpoll, a_connection_that_the_kernel_refuses_to_begin_fails_alone) {
  rebuild();
  for (const int error : {ENOMEM, EADDRNOTAVAIL, ENETUNREACH, EPERM}) {
    expect_refused_connection_fails_alone(error);
  }
  expect_new_client_is_served();
}

TEST_F(FailingEpoll, an_interrupted_connect_goes_on) {
  rebuild();
  const FailingCall failing(Call::connect, EINTR, {.failing = 1});
  const SocketId socket = connect_to(port_);
  EXPECT_TRUE(until([&] { return reported(socket).connects == 1; }));
  EXPECT_EQ(failing.failed_count(), 1u);
  close_and_wait(socket);
}

TEST_F(FailingEpoll, a_connection_whose_outcome_cannot_be_learned_fails_alone) {
  rebuild();
  for (const int error : {ENOBUFS, ENOMEM}) {
    const FailingCall failing(Call::getsockopt, error, {.failing = 1});
    const SocketId socket = connect_to(port_);
    ASSERT_TRUE(until([&] { return reported(socket).failures == 1; }));
    EXPECT_EQ(reported(socket).failure, -error);
    EXPECT_EQ(reported(socket).connects, 0u);
    EXPECT_LE(enters_in_one_wait(), enters_while_asleep);
    close_and_wait(socket);
  }
  expect_new_client_is_served();
}

// A reset makes epoll report an error, whose number cannot be learned: it is no end of stream.
TEST_F(FailingEpoll, a_stopped_connection_whose_error_cannot_be_learned_fails_alone) {
  rebuild();
  Client client(port_);
  const SocketId socket = accept_one();
  settle();
  const FailingCall failing(Call::getsockopt, ENOBUFS, {.failing = 1});
  client.reset();
  ASSERT_TRUE(until([&] { return reported(socket).failures == 1; }));
  EXPECT_EQ(reported(socket).failure, -ENOBUFS);
  EXPECT_LE(enters_in_one_wait(), enters_while_asleep);
  close_and_wait(socket);
  expect_new_client_is_served();
}

// fs.epoll.max_user_watches, or memory.
TEST_F(FailingEpoll, a_socket_that_cannot_be_watched_fails_alone) {
  for (const int error : {ENOSPC, ENOMEM}) expect_unwatched_fails_alone(Call::epoll_ctl, error);
}

TEST_F(FailingEpoll, a_listener_that_cannot_be_watched_is_reported_and_tried_again) {
  for (const int error : {ENOSPC, ENOMEM}) {
    SCOPED_TRACE(std::strerror(error));
    // The eventfd is watched first.
    std::optional<FailingCall> failing(std::in_place, Call::epoll_ctl, error, Times{.skipped = 1});
    rebuild();
    EXPECT_TRUE(until([&] { return accept_failures_ > 0; }));
    EXPECT_EQ(accept_failure_, -error);
    EXPECT_LE(enters_in_one_wait(), enters_while_asleep);
    EXPECT_LE(accept_failures_, 2u);
    failing.reset();
    expect_new_client_is_served();
  }
}

}  // namespace
}  // namespace sluice::io::test
