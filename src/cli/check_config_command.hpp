// `sluicegate check-config`: checks a configuration file, and shows the limits that it gives a key.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_check_config_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
