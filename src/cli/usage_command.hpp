// `sluicegate usage [NAME...]`: shows the usage of subjects.
// Flow:   flags -> sluicegate::Client -> exit code.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, sets `run` to its action, which returns the exit code.
void add_usage_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
