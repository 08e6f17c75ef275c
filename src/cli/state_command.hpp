// `sluicegate state info|check|backup`: reads a state file, also beside a running server.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_state_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
