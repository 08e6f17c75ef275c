// `sluicegate debug [KEY]`: shows the state of a key, or of all keys, on a running server.
// Flow:   flags -> sluicegate::Connection -> a page at a time -> a row, or a line of JSON, per key.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, sets `run` to its action, which returns the exit code.
void add_debug_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
