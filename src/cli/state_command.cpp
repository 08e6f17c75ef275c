#include "cli/state_command.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>

#include "cli/native_server.hpp"
#include "cli/part_check.hpp"
#include "cli/state_words.hpp"
#include "log/time.hpp"
#include "store/backup.hpp"
#include "store/check.hpp"
#include "store/info.hpp"

namespace sluice::cli {
namespace {

constexpr const char* state_description =
    R"(Shows, checks and copies a state file (the server's --state).

  sluicegate state info /var/lib/sluicegate/state.db
  sluicegate state check /var/lib/sluicegate/state.db
  sluicegate state backup /var/lib/sluicegate/state.db /backup/state-monday.db

All three work beside a running server, which goes on meanwhile: they see one commit, whole. None of
them changes the file. They need the right to read FILE, and FILE-wal and FILE-shm beside it.
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

Exit code: 0 when it was copied, 2 when not; then there is no TARGET.)";

struct StateFlags {
  std::string file;
  std::string target;
  bool json = false;
};

// SQLite would speak of a folder that cannot be written, or of the disk.
void require_file(const std::string& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  const char* cause = nullptr;
  if (status.type() == std::filesystem::file_type::not_found) cause = "there is no such file";
  if (status.type() == std::filesystem::file_type::directory) cause = "it is a folder";
  if (cause == nullptr) return;
  throw std::runtime_error(
      fmt::format("{}: {}; name the file that the server has as --state", printable(file), cause));
}

template <typename Value>
Value value_or_throw(store::Result<Value> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(*result);
}

store::Info info_of(const std::string& file) {
  return value_or_throw(store::read_info(file, cut_wall_ns));
}

int show_info(const StateFlags& flags) {
  require_file(flags.file);
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

// What a server would find when it loads them.
void check_quotas(const std::string& file, store::CheckReport& report) {
  auto reader = value_or_throw(store::StateReader::open(file));
  const auto complain = [&](const std::string& of, const std::optional<std::string>& damage) {
    if (damage && report.complaints.size() < store::complaints_max) {
      report.complaints.push_back(fmt::format("the quota {}: {}", of, *damage));
    }
  };
  for (const store::StoredClass& each : value_or_throw(reader.quota_classes())) {
    complain(fmt::format("of class {}", each.id), find_damage(each));
  }
  for (const store::StoredQuota& each : value_or_throw(reader.run_time_quotas())) {
    complain(fmt::format("put for {}", printable(each.name)), find_damage(each));
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
  std::fputs(fmt::format("{}: not sound, {}; restore a backup, or move it and the FILE-wal beside "
                         "it away to begin anew\n",
                         file, damaged_parts_text(found))
                 .c_str(),
             stderr);
  return 1;
}

int check_file(const StateFlags& flags) {
  require_file(flags.file);
  const auto verify = [](const store::StoredPart& part) { return find_damage(part); };
  auto checked = store::check(flags.file, cut_wall_ns, verify);
  if (!checked) return report_damage(checked.error());
  if (checked->complaints.empty()) check_quotas(flags.file, *checked);
  return report_findings(printable(flags.file), *checked);
}

int back_up(const StateFlags& flags) {
  require_file(flags.file);
  const store::Result<void> done = store::backup(flags.file, flags.target);
  if (!done) throw std::runtime_error(done.error().text);
  const store::Info copy = info_of(flags.target);
  std::puts(fmt::format("{}: {} copied, {}, last commit {}", printable(flags.target),
                        size_text(copy.file_bytes), epochs_text(copy),
                        commit_text(copy, log::now().wall_ns))
                .c_str());
  return 0;
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
}

}  // namespace sluice::cli
