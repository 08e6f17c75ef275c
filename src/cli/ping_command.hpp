// `sluicegate ping`: whether a server answers, and how fast.
// Flow:   flags -> sluicegate::Connection -> round-trip times -> one line and an exit code.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, sets `run` to its action, which returns the exit code.
void add_ping_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
