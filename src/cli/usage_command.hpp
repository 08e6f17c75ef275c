// `sluicegate usage [NAME...]`: shows the usage of subjects.
// Flow:   flags -> sluicegate::Client -> exit code.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_usage_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
