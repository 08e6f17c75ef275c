// `sluicegate reserve NAME...`: reserves what a call may need, before it is made.
// Flow:   flags -> sluicegate::Client -> exit code.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_reserve_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
