// `sluicegate check-config`: what is wrong with a policy file, and what it says of a key.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// Sets `run` when the command is given; it returns the exit code.
void add_check_config_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
