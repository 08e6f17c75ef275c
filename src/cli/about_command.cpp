#include "cli/about_command.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

namespace sluice::cli {

void add_about_commands(CLI::App& app, Run& run) {
  // Listed for help and completion: config::parse() has made "COMMAND --help" of it.
  app.add_subcommand("help", "This text, or a command's: help COMMAND.");
  app.add_subcommand("version", "Prints the version.")->callback([&run] {
    run = [] {
      std::cout << "sluicegate " SLUICE_VERSION "\n";
      return 0;
    };
  });
}

}  // namespace sluice::cli
