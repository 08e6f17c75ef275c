// The flags of amounts that a call has used.
#pragma once

#include <CLI/App.hpp>
#include <vector>

#include "sluicegate/quota.hpp"

namespace sluice::cli {

// Returns the options, so that others can exclude them.
std::vector<CLI::Option*> add_used_flags(CLI::App& command, sluicegate::Used& used);

}  // namespace sluice::cli
