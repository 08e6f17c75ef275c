// `sluicegate bench`: the load tool's flags.
// Flow:   flags -> load::Options -> load::run().
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_bench_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
