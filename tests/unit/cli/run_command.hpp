// Runs a subcommand in this process: its exit code, and its output.
// Flow:   words -> CLI11 -> the command's run() -> Outcome.
// Errors: an exception of the command reaches the test, with the capture ended.
#pragma once

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace sluice::cli::test {

struct Outcome {
  int exit_code = 0;
  std::string output;
  std::string errors;
};

using AddCommand = void (*)(CLI::App&, std::function<int()>&);

inline Outcome run_command(AddCommand add_command, const std::string& words) {
  CLI::App app;
  std::function<int()> run;
  add_command(app, run);
  app.parse(words);
  using namespace testing::internal;
  CaptureStdout();
  CaptureStderr();
  try {
    const int exit_code = run();
    return {exit_code, GetCapturedStdout(), GetCapturedStderr()};
  } catch (...) {
    GetCapturedStdout();  // lest the next test cannot capture
    GetCapturedStderr();
    throw;
  }
}

}  // namespace sluice::cli::test
