// `sluicegate settle ID`: what a reserved call used; or gives it back.
// Flow:   flags -> sluicegate::Client -> exit code.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, `run` becomes what it does; that returns the exit code.
void add_settle_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
