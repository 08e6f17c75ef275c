// `sluicegate release KEY`: releases permits, as after work that was never done.
// Flow:   flags -> sluicegate::Connection -> exit code.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_release_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
