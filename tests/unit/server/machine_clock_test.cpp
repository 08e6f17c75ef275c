// Goal:   what a state file stores beside its own time is this machine's: boot and clocks.
// Method: the real clocks, read before and after.
#include "server/machine_clock.hpp"

#include <gtest/gtest.h>

#include "io/clock.hpp"

namespace sluice::server {
namespace {

TEST(MachineClock, reads_both_clocks_and_keeps_the_boot) {
  const state::BootId boot{.high = 1, .low = 2};
  const int64_t boot_ns = io::read_clock_ns(CLOCK_BOOTTIME);
  const int64_t wall_ns = io::read_clock_ns(CLOCK_REALTIME);
  const state::MachineTime time = read_machine_time(boot);
  EXPECT_EQ(time.boot, boot);
  EXPECT_GE(time.boot_ns, boot_ns);
  EXPECT_LE(time.boot_ns, io::read_clock_ns(CLOCK_BOOTTIME));
  EXPECT_NEAR(static_cast<double>(time.wall_ns - wall_ns), 0, 60.0 * base::ns_per_s);
}

TEST(MachineClock, a_boot_keeps_its_name) {
  EXPECT_EQ(read_boot_id(), read_boot_id());
}

}  // namespace
}  // namespace sluice::server
