// `sluicegate reserve NAME...`: reserves what a call may need, before it is made.
// Flow:   flags -> sluicegate::Client -> exit code.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, sets `run` to its action, which returns the exit code.
void add_reserve_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
