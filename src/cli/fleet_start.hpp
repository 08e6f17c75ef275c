// The flags about other instances -> FleetOptions, checked as far as that needs no time.
// Flow:   Config -> read_fleet() -> find_own_node() -> FleetOptions -> server::Server.
// Errors: std::runtime_error with one line that names the flag and the cure.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"
#include "peer/fleet_options.hpp"

namespace sluice::cli {

struct FleetStart {
  peer::FleetOptions options;
  std::vector<std::string> warnings;
};

// Reads all but the own node. Without --instance-urls no other of these flags may be set.
FleetStart read_fleet(const config::Config& config);

// Waits for up to 30 s until a name leads to this machine.
uint16_t find_own_node(const config::Config& config, const peer::FleetOptions& fleet);

}  // namespace sluice::cli
