// `sluicegate help [COMMAND]` and `sluicegate version`.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, sets `run` to its action, which returns the exit code.
void add_about_commands(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
