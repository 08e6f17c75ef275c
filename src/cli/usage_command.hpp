// `sluicegate usage [NAME...]`: what is used of subjects.
// Flow:   flags -> sluicegate::Client -> exit code.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, `run` becomes what it does; that returns the exit code.
void add_usage_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
