// `sluicegate debug [KEY]`: shows the state of a key, or of all keys, on a running server.
// Flow:   flags -> sluicegate::Connection -> a page at a time -> a row, or a line of JSON, per key.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_debug_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
