// Flags -> Config -> the command; an exception becomes one line and an exit code.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <string>

#include "cli/about_command.hpp"
#include "cli/acquire_command.hpp"
#include "cli/bench_command.hpp"
#include "cli/check_config_command.hpp"
#include "cli/completion_command.hpp"
#include "cli/consume_command.hpp"
#include "cli/debug_command.hpp"
#include "cli/export_command.hpp"
#include "cli/import_command.hpp"
#include "cli/ping_command.hpp"
#include "cli/quota_command.hpp"
#include "cli/release_command.hpp"
#include "cli/reserve_command.hpp"
#include "cli/reset_command.hpp"
#include "cli/serve_command.hpp"
#include "cli/settle_command.hpp"
#include "cli/state_command.hpp"
#include "cli/top_command.hpp"
#include "cli/usage_command.hpp"
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
  cli::add_acquire_command(app, run);
  cli::add_release_command(app, run);
  cli::add_reset_command(app, run);
  cli::add_reserve_command(app, run);
  cli::add_settle_command(app, run);
  cli::add_consume_command(app, run);
  cli::add_quota_command(app, run);
  cli::add_usage_command(app, run);
  cli::add_debug_command(app, run);
  cli::add_ping_command(app, run);
  cli::add_bench_command(app, run);
  cli::add_top_command(app, run);
  cli::add_check_config_command(app, run);
  cli::add_state_command(app, run);
  cli::add_import_command(app, run);
  cli::add_export_command(app, run);
  cli::add_completion_command(app, run);
  cli::add_about_commands(app, run);
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
