#include "server/machine_clock.hpp"

#include <fstream>
#include <string>

#include "io/clock.hpp"

namespace sluice::server {

state::BootId read_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  return state::parse_boot_id(text).value_or(state::BootId{});
}

state::MachineTime read_machine_time(const state::BootId& boot) noexcept {
  return {.boot = boot,
          .boot_ns = io::read_clock_ns(CLOCK_BOOTTIME),
          .wall_ns = io::read_clock_ns(CLOCK_REALTIME)};
}

}  // namespace sluice::server
