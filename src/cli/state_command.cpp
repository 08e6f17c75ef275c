#include "cli/state_command.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "cli/native_server.hpp"
#include "cli/part_check.hpp"
#include "cli/remove_on_signal.hpp"
#include "cli/state_export.hpp"
#include "cli/state_files.hpp"
#include "cli/state_upkeep.hpp"
#include "cli/state_words.hpp"
#include "log/time.hpp"
#include "store/backup.hpp"
#include "store/check.hpp"
#include "store/file_place.hpp"
#include "store/info.hpp"
#include "store/unfinished_file.hpp"
#include "store/value_or_throw.hpp"

namespace sluice::cli {
namespace {

constexpr const char* state_description =
    R"(Shows, checks, copies and mends a state file (the server's --state).

  sluicegate state info /var/lib/sluicegate/state.db
  sluicegate state check /var/lib/sluicegate/state.db
  sluicegate state backup /var/lib/sluicegate/state.db /backup/state-monday.db
  sluicegate state export /var/lib/sluicegate/state.db | jq .
  sluicegate state compact /var/lib/sluicegate/state.db
  sluicegate state recover /var/lib/sluicegate/state.db /var/lib/sluicegate/recovered.db

All but compact work beside a running server, which goes on meanwhile: they see one commit, whole,
and change nothing in the file.
)";

constexpr const char* info_text_more =
    R"(  sluicegate state info state.db
  sluicegate state info state.db --json

last commit   what happened later is lost if the machine dies now; a running server commits
              every --state-sync-millis, if anything has changed
parts         what the commits have written; the server deletes the older ones when it has
              written everything again
free          room in FILE that the next commits use: the file does not shrink
FILE-wal      commits that are not copied into FILE yet: the two belong together

Exit code: 0 when it was shown, 2 when the file could not be read.)";

constexpr const char* check_text_more =
    R"(  sluicegate state check state.db && echo sound

It reads the whole file: the pages of the database, the checksum of each part, each record, and each
quota. What is wrong is printed on stderr, a line each. A server checks the same when it starts.

Exit code: 0 when it is sound, 1 when not, 2 when it could not be read or is no state file.)";

constexpr const char* backup_text_more =
    R"(  sluicegate state backup state.db state-monday.db

TARGET must not exist: nothing is overwritten. It is one file, as of one commit, without a
FILE-wal, and only its user may read it. To restore it: stop the server, remove FILE, FILE-wal and
FILE-shm, put a copy of TARGET in the place of FILE, and start the server. While a server runs, a
copy that cp makes of FILE is torn.

Exit code: 0 when it was copied, 1 when FILE has damaged parts, which TARGET has now, too, 2 when it
was not copied; then there is no TARGET.)";

constexpr const char* export_text_more =
    R"(  sluicegate state export state.db > state.jsonl
  sluicegate state export state.db | jq -c 'select(.type == "subject")'
  sluicegate state export state.db | jq -r 'select(.owner == "batch") | .reservation'

It prints a JSON object a line, as of the last commit. "type" says what it is:

file             the file and its last commit: the first line
run_time_quota   a quota that was put at run time
subject          a subject with the usage of each limit, as GET /v1/subjects/NAME has it
reservation      a reservation that is open, or has ended and keeps its place
end              how a reservation ended, which is remembered for repeats
window           the present window of a key that is long enough to be kept
summary          how many lines of each type there were: the last line

Exit code: 0 when all was printed, 2 when not.)";

constexpr const char* compact_text_more =
    R"(  sluicegate state compact state.db

A file does not shrink by itself: what is free in it is used by the next commits. Stop the server
first. The file is copied without its free room to FILE.unfinished, which then takes its place: the
disk needs as much room as the file has in the end. Whatever fails or dies, FILE has what it had.

Exit code: 0 when it is compact, 2 when not.)";

constexpr const char* recover_text_more =
    R"(  sluicegate state recover damaged.db state.db

FILE stays as it is. NEW has the newest commit of which every part is sound, all sound parts before
it, and the quotas that can be read. Each thing that is lost is a line on stderr. What lost parts
had is as if it had never happened: limits may admit it again, and reservations may be open that
have ended, until their lifetimes end. Restore a backup instead if it is not much older.

To go on with NEW: stop the server, move FILE, FILE-wal and FILE-shm away, rename NEW to FILE, start
the server.

Exit code: 0 when nothing is lost, 1 when something is, 2 when there is no NEW.)";

struct StateFlags {
  std::string file;
  std::string target;
  bool json = false;
};

store::Info info_of(const std::string& file) {
  return value_or_throw(store::read_info(file, cut_wall_ns));
}

int show_info(const StateFlags& flags) {
  require_state_file(flags.file);
  const store::Info info = info_of(flags.file);
  const int64_t now_ns = log::now().wall_ns;
  if (flags.json) {
    std::puts(text::indented(info_json(info, now_ns)).c_str());
  } else {
    std::fputs(info_text(info, now_ns).c_str(), stdout);
  }
  return 0;
}

bool is_damage(store::FailureKind kind) noexcept {
  return kind == store::FailureKind::damaged || kind == store::FailureKind::corrupt;
}

// So damaged that nothing more of it can be checked.
int report_damage(const store::Failure& failure) {
  if (!is_damage(failure.kind)) throw std::runtime_error(failure.text);
  std::fputs((failure.text + "\n").c_str(), stderr);
  return 1;
}

std::string damaged_parts_text(const store::CheckReport& found) {
  const uint64_t count = found.damaged_parts_count;
  std::string text = fmt::format("{} damaged {}", count, count == 1 ? "part" : "parts");
  if (found.complaints.size() < store::complaints_max) return text;
  return fmt::format("{}; only the first {} complaints are shown", text, store::complaints_max);
}

constexpr const char* cannot_be_used = " cannot be used here";

// What a server would find when it loads them.
void check_quotas(const std::string& file, store::CheckReport& report) {
  auto reader = value_or_throw(store::StateReader::open(file));
  const auto complain = [&](const std::string& of, const QuotaFinding& found) {
    using State = QuotaFinding::State;
    if (found.state == State::sound || report.complaints.size() == store::complaints_max) return;
    report.complaints.push_back(fmt::format("the quota {}{}: {}", of,
                                            found.state == State::damaged ? "" : cannot_be_used,
                                            found.cause));
  };
  for (const store::StoredClass& each : value_or_throw(reader.quota_classes())) {
    complain(fmt::format("of class {}", each.id), examine(each));
  }
  for (const store::StoredQuota& each : value_or_throw(reader.run_time_quotas())) {
    complain(fmt::format("put for {}", printable(each.name)), examine(each));
  }
}

int report_findings(const std::string& file, const store::CheckReport& found) {
  if (found.complaints.empty()) {
    std::puts(fmt::format("{}: sound, {} parts, {}, last commit {}", file, found.info.parts_count,
                          epochs_text(found.info), commit_text(found.info, log::now().wall_ns))
                  .c_str());
    return 0;
  }
  for (const std::string& complaint : found.complaints) {
    std::fputs(fmt::format("{}: {}\n", file, complaint).c_str(), stderr);
  }
  const auto is_unusable = [](const std::string& complaint) {
    return complaint.find(cannot_be_used) != std::string::npos;
  };
  if (std::ranges::all_of(found.complaints, is_unusable)) {
    std::fputs(fmt::format("{}: sound, but this program cannot use it on this machine: remove the "
                           "cause, or use the program and the machine that wrote it\n",
                           file)
                   .c_str(),
               stderr);
    return 1;
  }
  std::fputs(fmt::format("{}: not sound, {}; restore a backup, or move it and the FILE-wal beside "
                         "it away to begin anew; `sluicegate state recover` saves what is sound\n",
                         file, damaged_parts_text(found))
                 .c_str(),
             stderr);
  return 1;
}

std::optional<std::string> verify_part(const store::StoredPart& part) {
  return find_damage(part);
}

store::CheckReport check_parts(const std::string& file) {
  return value_or_throw(store::check(file, cut_wall_ns, verify_part));
}

int check_file(const StateFlags& flags) {
  require_state_file(flags.file);
  auto checked = store::check(flags.file, cut_wall_ns, verify_part);
  if (!checked) return report_damage(checked.error());
  if (checked->complaints.empty()) check_quotas(flags.file, *checked);
  return report_findings(printable(flags.file), *checked);
}

// Pages that are sound may have parts that are not: the copy has them, too.
int report_copied_damage(const store::CheckReport& copy, const StateFlags& flags) {
  if (copy.damaged_parts_count == 0) return 0;
  std::fputs(fmt::format("{}: the copy is not sound, as {} itself: {}, the first: {}; `sluicegate "
                         "state recover` makes a sound file of it\n",
                         printable(flags.target), printable(flags.file), damaged_parts_text(copy),
                         copy.complaints.front())
                 .c_str(),
             stderr);
  return 1;
}

int back_up(const StateFlags& flags) {
  require_state_file(flags.file);
  {
    const RemoveOnSignal removal(store::UnfinishedFile::path_of(store::real_path(flags.target)));
    value_or_throw(store::backup(flags.file, flags.target));
  }
  const store::CheckReport checked = check_parts(flags.target);
  const store::Info& copy = checked.info;
  std::puts(fmt::format("{}: {} copied, {}, last commit {}", printable(flags.target),
                        size_text(copy.file_bytes), epochs_text(copy),
                        commit_text(copy, log::now().wall_ns))
                .c_str());
  return report_copied_damage(checked, flags);
}

int compact(const StateFlags& flags) {
  return compact_state(flags.file);
}

int export_all(const StateFlags& flags) {
  return export_state(flags.file);
}

int recover(const StateFlags& flags) {
  return recover_state(flags.file, flags.target);
}

}  // namespace

void add_state_command(CLI::App& app, Run& run) {
  CLI::App* state = app.add_subcommand("state", state_description);
  state->require_subcommand(1);
  const auto flags = std::make_shared<StateFlags>();
  using Action = int (*)(const StateFlags&);
  const auto add = [&](const char* word, const char* text, const char* more, Action action) {
    CLI::App* command = state->add_subcommand(word, text);
    command->footer(more);
    command->add_option("FILE", flags->file, "the state file")->type_name("")->required();
    command->callback([flags, action, &run] { run = [flags, action] { return action(*flags); }; });
    return command;
  };
  add("info", "Shows what is in a state file: sizes, epochs, the last commit.", info_text_more,
      show_info)
      ->add_flag("--json", flags->json, "as JSON");
  add("check", "Checks every page, part and record of a state file.", check_text_more, check_file);
  add("backup", "Copies a state file, as of one commit.", backup_text_more, back_up)
      ->add_option("TARGET", flags->target, "the copy, which must not exist")
      ->type_name("")
      ->required();
  add("export", "Prints all that a state file has, as JSON.", export_text_more, export_all);
  add("compact", "Makes a state file as small as what it has.", compact_text_more, compact);
  add("recover", "Saves what is sound of a damaged state file.", recover_text_more, recover)
      ->add_option("NEW", flags->target, "the new file, which must not exist")
      ->type_name("")
      ->required();
}

}  // namespace sluice::cli
