// `sluicegate top`: a live view of what a running server decides, and of the keys it is asked for.
// Flow:   GET /top, again and again -> TopView -> TopScreen; with --once, or where there is no
//         terminal, once and as plain text.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_top_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
