// The back end is chosen by trying: a forked child forbids itself io_uring, as a container would.
#include "io/probe.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>

#include "io/listen.hpp"

namespace sluice::io::test {
namespace {

using base::IoBackend;

// From now on `call` fails with `error`; false when the machine does not let us.
bool forbid(uint32_t call, uint32_t error) {
  std::array<sock_filter, 4> program{{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Returns the result of `body` in a child where `call` is forbidden.
std::string in_jail(uint32_t call, uint32_t error, const std::function<std::string()>& body) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::string answer = forbid(call, error) ? body() : "no seccomp";
    [[maybe_unused]] const ssize_t written = ::write(pipe[1], answer.data(), answer.size());
    ::_exit(0);
  }
  ::close(pipe[1]);
  std::string answer;
  std::array<char, 4096> piece;
  for (ssize_t got = 0; (got = ::read(pipe[0], piece.data(), piece.size())) > 0;) {
    answer.append(piece.data(), static_cast<size_t>(got));
  }
  ::close(pipe[0]);
  ::waitpid(child, nullptr, 0);
  return answer;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Probe, takes_uring_where_it_works) {
  const std::string why_not = probe_uring();
  const Choice choice = choose_backend(IoBackend::automatic);
  EXPECT_EQ(choice.backend == IoBackend::uring, why_not.empty()) << why_not;
  EXPECT_EQ(choice.warning.empty(), why_not.empty());
}

TEST(Probe, takes_epoll_when_asked) {
  EXPECT_EQ(choose_backend(IoBackend::epoll).backend, IoBackend::epoll);
  EXPECT_EQ(choose_backend(IoBackend::epoll).warning, "");
  EXPECT_EQ(make_io({.backend = IoBackend::epoll}, {.sockets_max = 1}).io->name(), "epoll");
}

TEST(Probe, auto_falls_back_under_a_seccomp_profile_and_names_the_cure) {
  const std::string answer = in_jail(__NR_io_uring_setup, EPERM, [] {
    const Choice choice = choose_backend(IoBackend::automatic);
    return (choice.backend == IoBackend::epoll ? "epoll: " : "uring: ") + choice.warning;
  });
  if (answer == "no seccomp") GTEST_SKIP() << answer;
  EXPECT_TRUE(answer.starts_with("epoll: ")) << answer;
  EXPECT_TRUE(contains(answer, "seccomp") || contains(answer, "io_uring_disabled")) << answer;
  EXPECT_TRUE(contains(answer, "--security-opt") || contains(answer, "set it to 0")) << answer;
  EXPECT_TRUE(contains(answer, "--io epoll")) << answer;
  EXPECT_FALSE(contains(answer, "\n")) << answer;
}

TEST(Probe, uring_is_refused_with_the_same_text) {
  const std::string answer = in_jail(__NR_io_uring_setup, EPERM, []() -> std::string {
    const std::string warning = choose_backend(IoBackend::automatic).warning;
    try {
      choose_backend(IoBackend::uring);
    } catch (const std::runtime_error& error) {
      return warning.starts_with(error.what()) && *error.what() != 0 ? "same" : error.what();
    }
    return "no exception";
  });
  if (answer == "no seccomp") GTEST_SKIP() << answer;
  EXPECT_EQ(answer, "same");
}

// Some profiles and back-ports allow setting up a ring, and nothing else.
TEST(Probe, notices_a_profile_that_allows_only_the_set_up) {
  const std::string answer = in_jail(__NR_io_uring_register, EPERM, [] { return probe_uring(); });
  if (answer == "no seccomp") GTEST_SKIP() << answer;
  EXPECT_TRUE(contains(answer, "io_uring_register")) << answer;
}

TEST(Probe, notices_a_profile_that_forbids_to_enter) {
  const std::string answer = in_jail(__NR_io_uring_enter, EPERM, [] { return probe_uring(); });
  if (answer == "no seccomp") GTEST_SKIP() << answer;
  EXPECT_NE(answer, "");
}

TEST(Probe, an_old_kernel_is_named) {
  const std::string answer = in_jail(__NR_io_uring_setup, ENOSYS, [] { return probe_uring(); });
  if (answer == "no seccomp") GTEST_SKIP() << answer;
  EXPECT_TRUE(contains(answer, "Linux 6.1")) << answer;
}

}  // namespace
}  // namespace sluice::io::test
