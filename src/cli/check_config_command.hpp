// `sluicegate check-config`: checks a policy file, and shows the limits that it gives a key.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, sets `run` to its action, which returns the exit code.
void add_check_config_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
