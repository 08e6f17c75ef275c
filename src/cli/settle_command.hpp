// `sluicegate settle ID`: reports what a reserved call used, or cancels it.
// Flow:   flags -> sluicegate::Client -> exit code.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, sets `run` to its action, which returns the exit code.
void add_settle_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
