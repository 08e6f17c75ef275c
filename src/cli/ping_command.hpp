// `sluicegate ping`: whether a server answers, and how fast.
// Flow:   flags -> sluicegate::Connection -> round-trip times -> one line and an exit code.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_ping_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
