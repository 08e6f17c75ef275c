// Goal: a CPU that may not be used is refused with its flag and those that may be used.
// Method: lists of CPUs, and this machine's.
#include "load/cpus.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace sluice::load {
namespace {

TEST(Cpus, are_shown_as_ranges) {
  EXPECT_EQ(cpus_text(std::vector{0}), "0");
  EXPECT_EQ(cpus_text(std::vector{0, 1}), "0, 1");
  EXPECT_EQ(cpus_text(std::vector{0, 1, 2, 3, 8, 10, 11}), "0-3, 8, 10, 11");
  EXPECT_EQ(cpus_text(std::vector<int>{}), "");
}

TEST(Cpus, that_may_not_be_used_are_refused_with_the_others) {
  const std::vector allowed{0, 1, 2};
  EXPECT_NO_THROW(check_cpus("--server-cpu", std::vector{0, 2}, allowed));
  try {
    check_cpus("--server-cpu", std::vector{0, 77}, allowed);
    FAIL() << "77 was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()),
              "--server-cpu 77: there is no such CPU, or this process may not use it; it may use "
              "0-2");
  }
  EXPECT_THROW(check_cpus("--client-cpu", std::vector{-1}, allowed), std::runtime_error);
}

TEST(Cpus, of_this_process_can_be_set_and_its_affinity_stays) {
  const std::vector<int> allowed = allowed_cpus();
  ASSERT_FALSE(allowed.empty());
  EXPECT_TRUE(set_affinity(allowed));
  EXPECT_TRUE(set_affinity(std::span{allowed}.first(1)));
  EXPECT_EQ(allowed_cpus(), allowed);
  EXPECT_TRUE(set_affinity(allowed));
  EXPECT_FALSE(set_affinity(std::vector{100'000}));
}

}  // namespace
}  // namespace sluice::load
