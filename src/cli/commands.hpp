// All subcommands.
// Flow: main -> add_commands() -> each command's add_NAME_command().
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

// In the order of --help.
void add_commands(CLI::App& app, Run& run);

}  // namespace sluice::cli
