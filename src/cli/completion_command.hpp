// `sluicegate completion bash|zsh|fish`: a script for the shell, made from the flags themselves.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace sluice::cli {

// When the subcommand is called, sets `run` to its action, which returns the exit code. `app`
// outlives the call.
void add_completion_command(CLI::App& app, std::function<int()>& run);

}  // namespace sluice::cli
