// `sluicegate quota show|set|remove|reset NAME`: shows and changes the quota of a subject.
// Flow:   flags -> sluicegate::Client -> exit code.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

void add_quota_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
