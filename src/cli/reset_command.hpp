// `sluicegate reset KEY`: releases all permits of a key.
// Flow:   flags -> sluicegate::Connection -> exit code.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_reset_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
