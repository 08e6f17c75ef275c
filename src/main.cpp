// Flags -> Config -> the command; an exception becomes one line and an exit code.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <string>

#include "cli/commands.hpp"
#include "cli/serve_command.hpp"
#include "config/flags.hpp"

namespace {

// The exit code of a command whose output came out; 2 and an error where it did not.
int checked(int exit_code) {
  std::cout.flush();
  if (std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  std::cerr << "Error: the output cannot be written: " << std::strerror(errno) << '\n';
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace sluice;
  CLI::App app{std::string{}, "sluicegate"};
  config::Config config;
  config::Warnings warnings;
  std::function<int()> run = [&] { return cli::serve(config, warnings); };
  config::add_server_flags(app, config);
  cli::add_commands(app, run);
  try {
    warnings = config::parse(app, config, config::arguments_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    return checked(config::report_parse_error(app, error, std::cout, std::cerr));
  }
  try {
    return checked(run());
  } catch (const std::exception& error) {
    std::cerr << "Error: " << error.what() << '\n';
    return 2;
  }
}
