#include "cli/quota_command.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/holders_command.hpp"
#include "cli/native_server.hpp"
#include "cli/quota_dry_run.hpp"
#include "cli/quota_words.hpp"
#include "sluicegate/client.hpp"
#include "text/json.hpp"

namespace sluice::cli {
namespace {

using sluicegate::QuotaCode;

constexpr const char* quota_description =
    R"(Shows and changes the quota of a subject (a model, a tenant, an API key).

  sluicegate quota set gpt-4o --limit tpm:tokens:30000/60s --limit slots:concurrency:4
  sluicegate quota set gpt-4o --limit budget:cost:5000000/month@America/Los_Angeles
  sluicegate quota set gpt-4o --file quota.json
  sluicegate quota show gpt-4o
  sluicegate quota holders gpt-4o
  sluicegate quota reset gpt-4o

A limit is NAME:METRIC:AMOUNT[/PERIOD][:KIND].
  METRIC  requests, input_tokens, output_tokens, tokens, cost or concurrency
  AMOUNT  a number, unlimited or block
  PERIOD  250ms, 60s, 5m, 1h, 1d; or hour, day, week, month of the calendar, [@TIME_ZONE]
  KIND    sliding, fixed, gcra, anchored_day or rolling_day; left out: sliding
)";

constexpr const char* show_text =
    R"(  sluicegate quota show gpt-4o --json

Exit code: 0 when it was shown, 1 when there is no quota, 2 when there was no answer.)";

constexpr const char* set_text =
    R"(  sluicegate quota set gpt-4o --limit tpm:tokens:30000/60s:gcra --limit slots:concurrency:4
  sluicegate quota set gpt-4o --file quota.json
  sluicegate quota set gpt-4o --file quota.json --dry-run

It stays until it is removed. With --unlimited the subject has no limit.
Exit code: 0 when done, 1 when not, 2 when there was no answer or a limit is wrong.)";

constexpr const char* remove_text =
    R"(The configuration file's quota applies again.
Exit code: 0 when done, 1 when none was set or the server cannot keep the change, 2 when there was
no answer.)";

constexpr const char* reset_text =
    R"(  sluicegate quota reset gpt-4o
  sluicegate quota reset --all --dry-run
  sluicegate quota reset --all

Open reservations stay, and still count.
Exit code: 0 when done, 1 when the subject has no quota or the server cannot keep the change, 2 when
there was no answer.)";

struct QuotaFlags {
  std::string name;
  std::vector<std::string> limits;
  std::string file;
  NativeServer server;
  bool json = false;
  bool all = false;
  bool dry_run = false;
  bool unlimited = false;
};

std::string text_of(const std::string& file) {
  if (file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::invalid_argument("cannot read " + file + ": " + std::strerror(errno));
  if (std::filesystem::is_directory(file)) {
    throw std::invalid_argument("cannot read " + file + ": it is a folder");
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

int reported(QuotaCode code, const char* done) {
  if (code == QuotaCode::ok) {
    std::puts(done);
    return 0;
  }
  std::fprintf(stderr, "%s: %s\n", std::string{name(code)}.c_str(),
               std::string{reason(code)}.c_str());
  return 1;
}

int show(const QuotaFlags& flags, sluicegate::Client& client) {
  check_subjects({flags.name});
  const sluicegate::SubjectState subject = client.usage(flags.name);
  if (has_no_quota(subject)) {
    std::fputs(no_quota_text(flags.name).c_str(), stderr);
    return 1;
  }
  if (flags.json) {
    std::puts(text::indented(subject_json(subject)).c_str());
    return 0;
  }
  std::fputs(subjects_text({subject}).c_str(), stdout);
  const std::string profile =
      subject.quota.profile.empty() ? "" : ": " + printable(subject.quota.profile);
  std::printf("source %s%s, %u open, %u waiting\n", std::string{name(subject.source)}.c_str(),
              profile.c_str(), subject.open_reservations, subject.waiting);
  return 0;
}

int print_dry_run(const QuotaFlags& flags, sluicegate::Client& client, DryRun run) {
  run.present = client.usage(flags.name);
  const bool is_put = run.present.source == sluicegate::QuotaSource::run_time;
  if (run.change == QuotaChange::remove && !is_put) return reported(QuotaCode::no_such_quota, "");
  if (flags.json) {
    std::puts(dry_run_json(run).c_str());
  } else {
    std::fputs(dry_run_text(run).c_str(), stdout);
  }
  return 0;
}

// Only a walk through all subjects could report more. The ping fails where there is no server.
int print_dry_run_of_all(const QuotaFlags& flags, sluicegate::Client& client) {
  client.ping();
  if (flags.json) {
    std::puts(text::indented(text::Json{{"dry_run", true}}).c_str());
  } else {
    std::puts(
        "then, of every subject:\n  usage is 0, except for open reservations\n"
        "nothing was changed");
  }
  return 0;
}

int set(const QuotaFlags& flags, sluicegate::Client& client) {
  check_subjects({flags.name});
  if (flags.limits.empty() && flags.file.empty() && !flags.unlimited) {
    throw std::invalid_argument(
        "--limit or --file is required, or --unlimited for no limit at all");
  }
  const sluicegate::Quota quota =
      flags.file.empty() ? quota_of_words(flags.limits) : quota_of_json(text_of(flags.file));
  if (flags.dry_run) {
    return print_dry_run(flags, client, {.change = QuotaChange::set, .quota = quota});
  }
  return reported(client.put_quota(flags.name, quota), "set");
}

int remove(const QuotaFlags& flags, sluicegate::Client& client) {
  check_subjects({flags.name});
  if (flags.dry_run) return print_dry_run(flags, client, {.change = QuotaChange::remove});
  return reported(client.remove_quota(flags.name), "removed");
}

// The server has nothing to reset for a subject without a quota, and does not report that.
int reset(const QuotaFlags& flags, sluicegate::Client& client) {
  if (flags.name.empty() && !flags.all) throw std::invalid_argument("NAME or --all is required");
  if (!flags.all && has_no_quota(client.usage(flags.name))) {
    std::fputs(no_quota_text(flags.name).c_str(), stderr);
    return 1;
  }
  if (flags.dry_run && flags.all) return print_dry_run_of_all(flags, client);
  if (flags.dry_run) return print_dry_run(flags, client, {.change = QuotaChange::reset});
  return reported(flags.all ? client.reset_all() : client.reset(flags.name), "reset");
}

}  // namespace

void add_quota_command(CLI::App& app, Run& run) {
  CLI::App* quota = app.add_subcommand("quota", quota_description);
  quota->require_subcommand(1);
  const auto flags = std::make_shared<QuotaFlags>();
  using Action = int (*)(const QuotaFlags&, sluicegate::Client&);
  const auto add = [&](const char* word, const char* text, const char* more, Action action) {
    CLI::App* command = quota->add_subcommand(word, text);
    command->footer(more);
    add_native_server(*command, flags->server);
    command->callback([flags, action, &run] {
      run = [flags, action] {
        sluicegate::Client client = client_of(flags->server, "quota");
        return action(*flags, client);
      };
    });
    return command;
  };
  const auto add_name = [&](CLI::App* command) {
    return command->add_option("NAME", flags->name, "which subject")->type_name("");
  };

  const auto add_dry_run = [&](CLI::App* command) {
    CLI::Option* dry_run =
        command->add_flag("--dry-run", flags->dry_run,
                          "prints the present and the future quota, and changes nothing");
    command->add_flag("--json", flags->json, "with --dry-run: as JSON, as REST has it")
        ->needs(dry_run);
  };

  CLI::App* shown = add("show", "Shows a subject's quota and what is used of it.", show_text, show);
  add_name(shown)->required();
  shown->add_flag("--json", flags->json, "as JSON, with all fields of REST");

  CLI::App* changed =
      add("set", "Sets a quota, in place of the subject's present one.", set_text, set);
  add_name(changed)->required();
  auto* limits = changed
                     ->add_option("--limit", flags->limits,
                                  "NAME:METRIC:AMOUNT[/PERIOD][:KIND]; as often as needed")
                     ->type_name("LIMIT")
                     ->expected(1)
                     ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  CLI::Option* const file =
      changed
          ->add_option("--file", flags->file,
                       "JSON as a PUT over REST has it, or as show --json prints it; -: standard "
                       "input")
          ->type_name("FILE")
          ->excludes(limits);
  changed->add_flag("--unlimited", flags->unlimited, "no limit: every call is admitted")
      ->excludes(limits)
      ->excludes(file);
  add_dry_run(changed);

  CLI::App* removed = add("remove", "Removes a quota that was set.", remove_text, remove);
  add_name(removed)->required();
  add_dry_run(removed);

  add_holders_command(*quota, run);

  CLI::App* cleared = add("reset", "Resets a subject's usage to 0.", reset_text, reset);
  auto* name = add_name(cleared);
  cleared->add_flag("--all", flags->all, "of every subject")->excludes(name);
  add_dry_run(cleared);
}

}  // namespace sluice::cli
