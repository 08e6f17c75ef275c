// `sluicegate quota holders`: shows the open reservations of a server and their holders.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

// Adds the subcommand below `quota`.
void add_holders_command(CLI::App& quota, Run& run);

}  // namespace sluice::cli
