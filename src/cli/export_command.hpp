// `sluicegate export`: the subjects of a state file become a file of go-ratelimit.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_export_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
