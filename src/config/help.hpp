// The layout of --help: one flag a paragraph, its bounds, default and variable below it.
// Lives:  shared by an App and its subcommands; start-up only.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace sluice::config {

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(36); }

  // Before an error: the usage, and the command that shows all flags.
  std::string make_hint(const CLI::App& app) const;

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;

  // Of a command: above the footer it says how times are written, if a flag takes one.
  std::string make_footer(const CLI::App* app) const override;

 private:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace sluice::config
