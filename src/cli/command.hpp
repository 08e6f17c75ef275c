// The common part of all subcommands: how main learns which one was called.
// Flow:   add_NAME_command(app, run) -> CLI11 parses the arguments -> `run` -> the exit code.
#pragma once

#include <functional>

namespace sluice::cli {

// The action of a subcommand; returns the exit code. When a subcommand is called, CLI11's callback
// sets the `run` that its add function was given.
using Run = std::function<int()>;

}  // namespace sluice::cli
