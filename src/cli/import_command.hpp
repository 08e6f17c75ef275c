// `sluicegate import`: a file of go-ratelimit becomes a new state file.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_import_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
