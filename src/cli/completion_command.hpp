// `sluicegate completion bash|zsh|fish`: a script for the shell, made from the flags themselves.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.hpp"

namespace sluice::cli {

// `app` outlives the call.
void add_completion_command(CLI::App& app, Run& run);

}  // namespace sluice::cli
