// Goal: a core that does not exist is refused, and a server that does not come up is an error.
// Method: pin_to_cpu() by hand; "servers" that are this program again, or that the kernel does not
//         make. Real ones are in tests/integration/command_line_test.py.
#include "load/own_server.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/failing_calls.hpp"

namespace sluice::load {
namespace {

constexpr std::chrono::milliseconds start_time{3'000};

std::string error_of_start(const std::vector<std::string>& arguments) {
  try {
    const OwnServer server(arguments, {}, start_time);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "started";
}

TEST(PinToCpu, refuses_a_core_that_does_not_exist) {
  EXPECT_THROW(pin_to_cpu(100'000), std::runtime_error);
  EXPECT_THROW(pin_to_cpu(-1), std::runtime_error);
  EXPECT_THROW(pin_to_cpu(1'023), std::runtime_error) << "the kernel refuses it";
}

TEST(OwnServer, is_an_error_where_the_kernel_makes_no_process) {
  const ::sluice::test::FailingCall failing(::sluice::test::Call::fork, EAGAIN);
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  EXPECT_EQ(error_of_start({}), "cannot start the server: Resource temporarily unavailable");
  EXPECT_EQ(descriptors(), before);
}

// What the next test starts.
TEST(OwnServer, DISABLED_neither_starts_nor_ends) {
  std::cout << "still reading the configuration file" << std::endl;
  ::pause();
}

TEST(OwnServer, that_neither_starts_nor_ends_is_ended_after_a_while) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string error =
      error_of_start({"--gtest_filter=OwnServer.DISABLED_*", "--gtest_also_run_disabled_tests"});
  EXPECT_EQ(error, "the server did not come up in time: still reading the configuration file");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, start_time);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "it still runs";
}

}  // namespace
}  // namespace sluice::load
