// The clocks of this machine, as a state file stores them beside its own time.
#pragma once

#include "state/state_clock.hpp"

namespace sluice::server {

// Unknown where the kernel does not show it.
state::BootId read_boot_id();

state::MachineTime read_machine_time(const state::BootId& boot) noexcept;

}  // namespace sluice::server
