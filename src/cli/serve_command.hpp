// `sluicegate` without a subcommand: runs the server until a signal ends it.
// Flow:   Config -> server::Server -> signals: the first drains, the second ends at once.
// Errors: throws what keeps the server from starting; main prints it in one line and exits with 2.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace sluice::cli {

// Logs `warnings` first. The exit code: 0 after draining; 1 when a second signal ended it early, or
// the workers did not stop in time.
int serve(const config::Config& config, const std::vector<std::string>& warnings);

}  // namespace sluice::cli
