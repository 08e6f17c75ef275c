// `sluicegate acquire KEY`: asks a running server, for a first try by hand and for scripts.
// Flow:   flags -> sluicegate::Connection -> a line per answer.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, sets `run` to its action, which returns the exit code.
void add_acquire_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
