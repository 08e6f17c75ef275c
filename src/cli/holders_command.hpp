// `sluicegate quota holders`: shows the open reservations of a server and their holders.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// Adds the subcommand below `quota`.
void add_holders_command(CLI::App& quota, std::function<int()>& run);

}  // namespace sluice::cli
