// The server's flags: registers them, reads them, and reports errors in them.
// Flow:   main -> add_server_flags -> parse -> Config; else report_parse_error -> exit code
// Shape:  flag over environment over default. A flag's variable is its name in capitals:
//         --max-requests, MAX_REQUESTS; set but empty counts as unset. Repeated flags: the last.
//         A type of help's such as auto|uring|epoll lists all values of a flag.
// Errors: parse() throws CLI::ParseError, also for a call for help; report_parse_error prints it.
// Lives:  before any worker runs; `app` writes into `config`, which outlives it.
#pragma once

#include <CLI/CLI.hpp>
#include <iosfwd>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/cpus.hpp"

namespace sluice::config {

// Registers the flags in groups, and our layout of --help; call it before add_subcommand(), which
// copies that layout.
void add_server_flags(CLI::App& app, Config& config);

// What is to be logged once there is a log.
using Warnings = std::vector<std::string>;

// Reads `arguments` (without the program's name), and the environment unless a subcommand is used.
// Then sets in `config` what neither gave and `cpus` decides.
Warnings parse(CLI::App& app, Config& config, std::vector<std::string> arguments,
               const UsableCpus& cpus = usable_cpus());
std::vector<std::string> arguments_of(int argc, const char* const* argv);

// Help and version go to `out`, exit 0. Anything else is a usage error: usage and "Error: ..." go
// to `err`. Exit 1 as gocc has it; 2 from a subcommand, where 1 is an answer.
int report_parse_error(const CLI::App& app, const CLI::ParseError& error, std::ostream& out,
                       std::ostream& err);

// "MAX_REQUESTS" for "max-requests".
std::string environment_name(const std::string& flag_name);

}  // namespace sluice::config
