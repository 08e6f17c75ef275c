// `sluicegate quota show|set|remove|reset NAME`: what a subject may use.
// Flow:   flags -> sluicegate::Client -> exit code.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, `run` becomes what it does; that returns the exit code.
void add_quota_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
