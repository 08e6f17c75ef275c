// `sluicegate acquire KEY`: asks a running server, for a first try by hand and for scripts.
// Flow:   flags -> sluicegate::Connection -> a line per answer.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_acquire_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
