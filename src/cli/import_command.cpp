#include "cli/import_command.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "cli/migration_words.hpp"
#include "cli/native_server.hpp"
#include "cli/remove_on_signal.hpp"
#include "migration/incoming.hpp"
#include "migration/new_state.hpp"
#include "policy/quota_file.hpp"
#include "policy/text_file.hpp"
#include "server/machine_clock.hpp"
#include "store/file_place.hpp"
#include "store/unfinished_file.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::cli {
namespace {

constexpr const char* import_description =
    R"(Makes a state file (the server's --state) of a file of the Go library go-ratelimit.

  sluicegate import ratelimits.yaml --state state.db >quotas.json
  sluicegate --state state.db --config-file quotas.json

  sluicegate import ratelimits.db --state state.db --quotas put --dry-run

FILE is the library's YAML or SQLite; which one it is shows in the file. Stop the program that
writes it first, and let it persist. Each model becomes a subject with the limits rpm, tpm and rpd.
)";

constexpr const char* import_text_more =
    R"(Quotas are printed on stdout as a configuration file; paste them into yours if you have one.
The usage of a model counts only if the server finds its quota there. With --quotas put the state
file itself has them, as quotas that were put at run time: they precede those of a configuration
file, until a request removes or replaces them.

What is carried, and each thing that is not, is printed on stderr: events of a minute ago or
earlier, days that are over, models without a quota. Whatever is wrong with FILE is printed with its
place; then nothing is written. docs/moving-in.md has all the steps.

Exit code: 0 when it was imported, 2 when not; then there is no new state file.)";

struct ImportFlags {
  std::string file;
  std::string state;
  std::string quotas = "print";
  bool dry_run = false;
};

int refuse(const ImportFlags& flags, const std::vector<transfer::Complaint>& complaints) {
  print_error(lines_of(printable(flags.file), complaints));
  print_error(fmt::format("{}: not imported; nothing was written\n", printable(flags.file)));
  return 2;
}

// Before anything is written: without the quotas its usage would be worth nothing.
bool print(const std::string& text) {
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
}

// As a configuration file that a server reads. Throws if it would be too large for that.
std::string printed_quotas(const migration::Incoming& incoming) {
  std::string text = quotas_part(incoming.subjects);
  if (text.size() <= policy::file_bytes_max && incoming.subjects.size() <= policy::subjects_max) {
    return text;
  }
  throw std::runtime_error(
      fmt::format("these are more quotas than a configuration file may have ({} models, {} MiB; "
                  "at most {} and {} MiB): import with --quotas put",
                  incoming.subjects.size(), text.size() >> 20, policy::subjects_max,
                  policy::file_bytes_max >> 20));
}

std::string written_text(const ImportFlags& flags) {
  if (flags.dry_run) return "nothing was written (--dry-run)";
  const std::string path = printable(flags.state);
  const bool puts = flags.quotas == "put";
  return fmt::format("{}: written; start the server with --state {}{}", path, path,
                     puts ? "" : " and these quotas in its --config-file");
}

int import(const ImportFlags& flags) {
  const auto file = transfer::read_go_ratelimit(flags.file);
  if (!file) return refuse(flags, file.error());
  const state::MachineTime now = server::read_machine_time(server::read_boot_id());
  const migration::Incoming incoming = migration::incoming_of(*file, now.wall_ns);
  if (!incoming.complaints.empty()) return refuse(flags, incoming.complaints);
  migration::check_new_state_place(flags.state);
  const bool puts = flags.quotas == "put";
  if (!puts && !print(printed_quotas(incoming))) return 2;  // main names the cause
  if (!flags.dry_run) {
    const RemoveOnSignal removal(store::UnfinishedFile::path_of(store::real_path(flags.state)));
    migration::write_new_state(
        incoming.subjects,
        {.path = flags.state, .now = now, .seeds = server::draw_seeds(), .puts_quotas = puts});
  }
  print_error(fmt::format("carried: {}\n", carried_text(incoming)));
  print_error(lines_of("not carried", incoming.left_out));
  print_error(written_text(flags) + "\n");
  return 0;
}

}  // namespace

void add_import_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("import", import_description);
  command->footer(import_text_more);
  const auto flags = std::make_shared<ImportFlags>();
  command->add_option("FILE", flags->file, "the library's file")->type_name("")->required();
  command->add_option("--state", flags->state, "the state file to make, which must not exist")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--quotas", flags->quotas,
                   "print them on stdout, or put them into the state file")
      ->type_name("print|put")
      ->check(CLI::IsMember({"print", "put"}).description(""))
      ->capture_default_str();
  command->add_flag("--dry-run", flags->dry_run, "do everything but write");
  command->callback([flags, &run] { run = [flags] { return import(*flags); }; });
}

}  // namespace sluice::cli
