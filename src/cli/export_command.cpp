#include "cli/export_command.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "cli/migration_words.hpp"
#include "cli/native_server.hpp"
#include "cli/remove_on_signal.hpp"
#include "cli/state_files.hpp"
#include "config/config.hpp"
#include "migration/outgoing.hpp"
#include "migration/stored_subjects.hpp"
#include "policy/rule_file.hpp"
#include "server/machine_clock.hpp"
#include "store/unfinished_file.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::cli {
namespace {

constexpr const char* export_description =
    R"(Makes a file of the Go library go-ratelimit of a state file (the server's --state).

  sluicegate export state.db --format go-ratelimit-yaml --output ratelimits.yaml
  sluicegate export state.db --format go-ratelimit-sqlite --output ratelimits.db \
      --config-file quotas.json --dry-run

It works beside a running server, as of its last commit; stop the server if the library goes on with
the usage. Nothing changes the state file.
)";

constexpr const char* export_command_details =
    R"(A model's max_rpm is the limit of requests over 60 s (sliding), max_tpm that of tokens,
max_rpd that of requests of an anchored_day. What else there is, is left out, and printed on stderr
with its place: other limits, patterns, open reservations (what they hold counts as used), leases.
Usage becomes events at the end of their sub-windows: they count for up to 4 s longer than here.

Quotas of a configuration file are in the state file as far as a server has used them. With
--config-file they are those of that file, and all of it.

Exit code: 0 when it was exported, 2 when not; then there is no new file. Nothing is overwritten.)";

constexpr const char* yaml = "go-ratelimit-yaml";
constexpr const char* sqlite = "go-ratelimit-sqlite";

struct ExportFlags {
  std::string state;
  std::string format;
  std::string output;
  std::string config_file;
  std::string profiles = config::installed_profiles();
  bool dry_run = false;
};

int refuse(const std::string& file, const std::vector<transfer::Complaint>& complaints) {
  print_error(lines_of(printable(file), complaints));
  print_error("not exported; nothing was written\n");
  return 2;
}

policy::ParsedRules read_config(const ExportFlags& flags) {
  const policy::TextFile read = policy::read_text_file(flags.config_file);
  if (!read.error.empty()) {
    throw std::runtime_error(printable(flags.config_file) + ": " + read.error);
  }
  return policy::parse_rules(read.text,
                             policy::read_profiles_in(flags.profiles, flags.config_file));
}

std::vector<transfer::Complaint> as_complaints(const std::vector<std::string>& texts) {
  std::vector<transfer::Complaint> complaints;
  for (const std::string& text : texts) complaints.push_back({.place = "", .text = text});
  return complaints;
}

// Before the work; the writer finds what comes into its way later.
void check_target(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return;
  throw std::runtime_error(printable(path) +
                           ": it exists already; name a file that does not exist");
}

transfer::Complained<void> write(const ExportFlags& flags, const transfer::GoRatelimitFile& file) {
  if (flags.format == yaml) return transfer::write_go_ratelimit_yaml(flags.output, file);
  return transfer::write_go_ratelimit_sqlite(flags.output, file);
}

int export_from(const ExportFlags& flags, policy::QuotaBook* book) {
  require_state_file(flags.state);
  check_target(flags.output);
  const migration::StoredSubjects stored = migration::read_stored_subjects(
      flags.state, book, [] { return server::read_machine_time(server::read_boot_id()); });
  const migration::Outgoing outgoing =
      migration::outgoing_of(stored, book == nullptr ? nullptr : &book->rules());
  if (!outgoing.complaints.empty()) return refuse(flags.state, outgoing.complaints);
  if (!flags.dry_run) {
    const RemoveOnSignal removal(store::UnfinishedFile::path_of(flags.output));
    const auto written = write(flags, outgoing.file);
    if (!written) return refuse(flags.output, written.error());
  }
  if (!stored.clock_warning.empty()) print_error("warning: " + stored.clock_warning + "\n");
  print_error(lines_of("not carried", outgoing.left_out));
  std::puts(fmt::format("{}: {}{}", printable(flags.output), carried_text(outgoing),
                        flags.dry_run ? "; nothing was written (--dry-run)" : "")
                .c_str());
  return 0;
}

int export_subjects(const ExportFlags& flags) {
  if (flags.config_file.empty()) return export_from(flags, nullptr);
  policy::ParsedRules parsed = read_config(flags);
  if (!parsed.complaints.empty()) {
    return refuse(flags.config_file, as_complaints(parsed.complaints));
  }
  policy::QuotaBook book(std::move(parsed.quotas));
  return export_from(flags, &book);
}

}  // namespace

void add_export_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("export", export_description);
  command->footer(export_command_details);
  const auto flags = std::make_shared<ExportFlags>();
  command->add_option("STATE", flags->state, "the state file")->type_name("")->required();
  command->add_option("--format", flags->format, "what the library reads")
      ->type_name(std::string(yaml) + "|" + sqlite)
      ->check(CLI::IsMember({yaml, sqlite}).description(""))
      ->required();
  command->add_option("--output", flags->output, "the file to make, which must not exist")
      ->type_name("FILE")
      ->required();
  command->add_option("--config-file", flags->config_file, "the server's --config-file")
      ->type_name("FILE");
  command->add_option("--profiles", flags->profiles, "the server's --profiles")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_flag("--dry-run", flags->dry_run, "do everything but write");
  command->callback([flags, &run] { run = [flags] { return export_subjects(*flags); }; });
}

}  // namespace sluice::cli
