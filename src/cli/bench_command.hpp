// `sluicegate bench`: the load tool's flags.
// Flow:   flags -> load::Options -> load::run().
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, sets `run` to its action, which returns the exit code.
void add_bench_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
