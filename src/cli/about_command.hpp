// `sluicegate help [COMMAND]` and `sluicegate version`.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When a subcommand is called, `run` becomes what it does; that returns the exit code.
void add_about_commands(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
