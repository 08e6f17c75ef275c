// `sluicegate release KEY`: releases permits, as after work that was never done.
// Flow:   flags -> sluicegate::Connection -> exit code.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, sets `run` to its action, which returns the exit code.
void add_release_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
