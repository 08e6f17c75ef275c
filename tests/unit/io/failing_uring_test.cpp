// io_uring where the kernel is older, short of memory or refuses: the ring falls back as far as it
// can, and what it cannot do ends in one error that names the step.
#include <fstream>
#include <optional>

#include "failing_io_fixture.hpp"
#include "io/probe.hpp"

namespace sluice::io::test {
namespace {

class FailingUring : public FailingIoTest<UringIo> {};

// 6.1 knows the first flags, 5.19 the second, and without any it still works.
TEST_F(FailingUring, sets_up_with_older_flags) {
  for (const uint32_t refused : {1u, 2u}) {
    SCOPED_TRACE(refused);
    std::optional<FailingCall> failing(std::in_place, Call::io_uring_queue_init_params, EINVAL,
                                       Times{.failing = refused});
    rebuild();
    EXPECT_EQ(failing->failed_count(), refused);
    failing.reset();
    settle();
    EXPECT_LE(enters_in_one_wait(), enters_while_asleep);
    expect_new_client_is_served();
    io_->wake();
    EXPECT_TRUE(until([&] { return wakes_ > 0; }));
    wakes_ = 0;
    io_->accept_finish(0);
    EXPECT_TRUE(until([&] { return listeners_closed_ > 0; }));
    listeners_closed_ = 0;
  }
}

TEST_F(FailingUring, goes_on_without_a_registered_ring) {
  const FailingCall failing(Call::io_uring_register_ring_fd, EINVAL);
  rebuild();
  EXPECT_EQ(failing.failed_count(), 1u);
  expect_new_client_is_served();
}

TEST_F(FailingUring, an_error_of_the_set_up_names_its_step) {
  const auto step_with = [&](Call call, int error) {
    const FailingCall failing(call, error);
    try {
      rebuild();
    } catch (const std::system_error& failure) {
      EXPECT_EQ(failure.code().value(), error);
      return std::string(failure.what());
    }
    return std::string("built");
  };
  for (const int error : {EPERM, ENOSYS, ENOMEM, EMFILE, ENFILE, EINVAL}) {
    EXPECT_TRUE(step_with(Call::io_uring_queue_init_params, error).starts_with("io_uring_setup"));
  }
  for (const int error : {EINVAL, ENOMEM, EEXIST}) {
    EXPECT_TRUE(step_with(Call::io_uring_register_buf_ring, error)
                    .starts_with("io_uring_register_buf_ring"));
  }
}

TEST_F(FailingUring, the_probe_names_cause_and_cure) {
  const auto probed_with = [](int error) {
    const FailingCall failing(Call::io_uring_queue_init_params, error);
    return probe_uring();
  };
  EXPECT_NE(probed_with(ENOMEM).find("LimitMEMLOCK"), std::string::npos);
  EXPECT_NE(probed_with(ENOSYS).find("Linux 6.1"), std::string::npos);
  EXPECT_NE(probed_with(EOPNOTSUPP).find("the kernel lacks a feature"), std::string::npos);
  EXPECT_TRUE(probed_with(EMFILE).ends_with("choose --io epoll, or free what is missing"));
}

// 5.19 has the ring of buffers, but knows no multishot receive, which is younger (6.0).
TEST_F(FailingUring, the_probe_finds_out_that_the_kernel_knows_no_multishot) {
  const FailingCall failing(Call::op_recv, EINVAL);
  const std::string why_not = probe_uring();
  EXPECT_EQ(
      why_not,
      "io_uring does not work here (a multishot receive: Invalid argument): the kernel lacks a "
      "feature; use Linux 6.1 or newer, or choose --io epoll");
  const Choice choice = choose_backend(base::IoBackend::automatic);
  EXPECT_EQ(choice.backend, base::IoBackend::epoll);
  EXPECT_EQ(choice.warning, why_not + "; going on with epoll");
  EXPECT_THROW(choose_backend(base::IoBackend::uring), std::runtime_error);
  EXPECT_EQ(failing.failed_count(), 3u);
}

// Before 5.11 a wait had no time limit of its own; before 5.5 a full completion queue lost some.
TEST_F(FailingUring, is_not_built_without_a_feature_of_the_ring) {
  for (const uint32_t missing : {IORING_FEAT_EXT_ARG, IORING_FEAT_NODROP}) {
    const FailingCall failing(Call::io_uring_features, static_cast<int>(missing));
    const size_t descriptors = open_descriptors();
    EXPECT_NE(probe_uring().find("io_uring_setup (features): Invalid argument): the kernel lacks"),
              std::string::npos);
    EXPECT_EQ(open_descriptors(), descriptors);
  }
}

TEST_F(FailingUring, the_probe_names_the_sysctl_that_forbids_it) {
  const std::string file = testing::TempDir() + "io_uring_disabled_" + std::to_string(::getpid());
  const auto probed_where_it_is = [&](const std::string& value) {
    std::ofstream(file) << value;
    const ReplacedFile replaced("/proc/sys/kernel/io_uring_disabled", file);
    const FailingCall failing(Call::io_uring_queue_init_params, EPERM);
    return probe_uring();
  };
  EXPECT_TRUE(probed_where_it_is("2\n").ends_with(
      "the sysctl kernel.io_uring_disabled is 2; set it to 0, or choose --io epoll"));
  for (const std::string value : {"0\n", ""}) {
    EXPECT_NE(probed_where_it_is(value).find("a seccomp profile forbids it"), std::string::npos);
  }
  ::unlink(file.c_str());
}

TEST_F(FailingUring, the_probe_reports_a_kernel_that_takes_nothing_in_time) {
  for (const int error : {EPERM, ENOSYS, EAGAIN}) {
    const FailingCall wait(Call::io_uring_submit_and_wait_timeout, error);
    EXPECT_NE(probe_uring().find("io_uring_enter: "), std::string::npos);
    EXPECT_LE(wait.failed_count(), 5u);
  }
  // One that takes them a little later works.
  const FailingCall wait(Call::io_uring_submit_and_wait_timeout, EAGAIN, {.failing = 2});
  EXPECT_EQ(probe_uring(), "");
}

// The ring has room for two submissions, and the kernel takes none of them for a while.
TEST_F(FailingUring, operations_without_room_in_the_queue_follow_later) {
  rebuild({.sockets_max = 16, .completions = 4});
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<SocketId> sockets;
  for (int each = 0; each < 6; ++each) {
    clients.push_back(std::make_unique<Client>(port_));
    sockets.push_back(accept_one());
  }
  const FailingCall failing(Call::io_uring_submit, EBUSY, {.failing = 3});
  for (size_t each = 0; each < sockets.size(); ++each) {
    io_->receive_start(sockets[each]);
    clients[each]->write("x");
  }
  for (const SocketId socket : sockets) {
    EXPECT_TRUE(until([&] { return reported(socket).received == "x"; }));
  }
  EXPECT_GT(failing.failed_count(), 0u);
}

// EINTR ends a wait early; the poll goes on with the rest of it.
TEST_F(FailingUring, an_interrupted_wait_is_resumed) {
  rebuild();
  settle();
  const FailingCall failing(Call::io_uring_submit_and_wait_timeout, EINTR, {.failing = 3});
  const auto begin = std::chrono::steady_clock::now();
  poll_once(wait_ns);
  EXPECT_EQ(failing.failed_count(), 3u);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::nanoseconds(wait_ns));
}

// While nothing is received, a poll looks for the peer's hang-up.
TEST_F(FailingUring, a_watch_that_fails_fails_its_connection_alone) {
  for (const int error : {ENOMEM, EINVAL}) expect_unwatched_fails_alone(Call::op_poll_add, error);
}

TEST_F(FailingUring, a_wake_up_that_cannot_be_read_is_read_again) {
  const FailingCall failing(Call::op_read, EINTR, {.failing = 2});
  rebuild();
  settle();
  io_->wake();
  EXPECT_TRUE(until([&] { return wakes_ > 0; }));
}

// Each failure is reported, so that the worker looks for what other threads have sent.
TEST_F(FailingUring, sleeps_while_no_wake_up_can_be_read_and_recovers) {
  for (const int error : {EINTR, ENOMEM, EINVAL}) {
    SCOPED_TRACE(std::strerror(error));
    {
      const FailingCall failing(Call::op_read, error);
      rebuild();
      EXPECT_LE(enters_within(6 * wait_ns), enters_while_asleep);
      EXPECT_GT(refusals_, 0u);
      EXPECT_EQ(refusal_, -error);
      EXPECT_LE(failing.failed_count(), enters_while_asleep);
      expect_new_client_is_served();
    }
    wakes_ = 0;
    io_->wake();
    EXPECT_TRUE(until([&] { return wakes_ > 0; }));
  }
}

// Buffers are gone: the sockets wait for them in order, and lose nothing.
TEST_F(FailingUring, receives_without_a_buffer_wait_for_one) {
  rebuild();
  Client client(port_);
  const SocketId socket = accept_one();
  const FailingCall failing(Call::op_recv, ENOBUFS, {.failing = 3});
  expect_received_whole(client, socket);
  EXPECT_GE(io_->statistics().buffers_exhausted, 3u);
}

TEST_F(FailingUring, a_connection_that_the_kernel_refuses_to_begin_fails_alone) {
  rebuild();
  for (const int error : {ENOMEM, ETIMEDOUT, EHOSTUNREACH, ECANCELED}) {
    expect_refused_connection_fails_alone(error);
  }
  expect_new_client_is_served();
}

TEST_F(FailingUring, an_interrupted_connect_goes_on) {
  rebuild();
  const FailingCall failing(Call::op_connect, EINTR, {.failing = 3});
  const SocketId socket = connect_to(port_);
  EXPECT_TRUE(until([&] { return reported(socket).connects == 1; }));
  EXPECT_EQ(failing.failed_count(), 3u);
}

// Linux 6.1 may ask a connection twice, and the second time it stands already.
TEST_F(FailingUring, a_connection_that_stands_already_is_connected) {
  rebuild();
  const FailingCall failing(Call::op_connect, EISCONN, {.failing = 1});
  const SocketId socket = connect_to(port_);
  EXPECT_TRUE(until([&] { return reported(socket).connects == 1; }));
  close_and_wait(socket);
}

}  // namespace
}  // namespace sluice::io::test
