// `sluicegate consume NAME...`: charges usage, if it fits.
// Flow:   flags -> sluicegate::Client -> exit code.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_consume_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
