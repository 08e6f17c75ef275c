// `sluicegate help [COMMAND]` and `sluicegate version`.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_about_commands(CLI::App& app, Run& run);

}  // namespace sluice::cli
