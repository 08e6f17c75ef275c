// `sluicegate settle ID`: reports what a reserved call used, or cancels it.
// Flow:   flags -> sluicegate::Client -> exit code.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_settle_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
