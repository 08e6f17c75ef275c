// Goal: the machine that the server asks is the one that it runs on.
#include "peer/machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::peer {
namespace {

TEST(ThisMachine, has_name_and_addresses) {
  ThisMachine machine;
  EXPECT_EQ(machine.host_name(), io::host_name());
  EXPECT_EQ(machine.local_addresses(), io::local_addresses());
  EXPECT_TRUE(
      std::ranges::all_of(machine.resolve("localhost").addresses, &io::IpAddress::is_loopback));
}

TEST(ThisMachine, sleeps_by_its_clock) {
  ThisMachine machine;
  const int64_t before_ns = machine.now_ns();
  machine.sleep_ns(2'000'000);
  EXPECT_GE(machine.now_ns() - before_ns, 2'000'000);
}

}  // namespace
}  // namespace sluice::peer
