// `sluicegate quota holders`: who holds the open reservations of a server.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// Below `quota`.
void add_holders_command(CLI::App& quota, std::function<int()>& run);

}  // namespace sluice::cli
