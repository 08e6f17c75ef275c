#include "cli/usage_command.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/native_server.hpp"
#include "cli/quota_words.hpp"
#include "sluicegate/client.hpp"
#include "text/json.hpp"

namespace sluice::cli {
namespace {

constexpr const char* usage_description =
    R"(Shows the usage of subjects: of all that are known, or of those named.

  sluicegate usage
  sluicegate usage gpt-4o claude --json

Exit code: 0 when it was shown, 1 when a subject that was named has no quota, 2 when there was no
answer.
)";

struct UsageFlags {
  std::vector<std::string> names;
  NativeServer server;
  bool json = false;
};

std::vector<sluicegate::SubjectState> all_subjects(sluicegate::Client& client) {
  std::vector<sluicegate::SubjectState> all;
  uint64_t cursor = 0;
  do {
    sluicegate::SubjectPage page = client.usage_page(cursor);
    std::move(page.subjects.begin(), page.subjects.end(), std::back_inserter(all));
    cursor = page.cursor;
  } while (cursor != 0);
  return all;
}

int usage(const UsageFlags& flags) {
  check_subjects(flags.names);
  sluicegate::Client client = client_of(flags.server, "usage");
  const std::vector<std::string_view> names{flags.names.begin(), flags.names.end()};
  const auto subjects = names.empty() ? all_subjects(client) : client.usage(names);
  if (flags.json) {
    for (const auto& subject : subjects) std::puts(text::one_line(subject_json(subject)).c_str());
  } else {
    std::fputs(subjects_text(subjects).c_str(), stdout);
  }
  if (names.empty()) return 0;
  int code = 0;
  for (const sluicegate::SubjectState& subject : subjects) {
    if (!has_no_quota(subject)) continue;
    std::fputs(no_quota_text(subject.name).c_str(), stderr);
    code = 1;
  }
  return code;
}

}  // namespace

void add_usage_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("usage", usage_description);
  const auto flags = std::make_shared<UsageFlags>();
  command->add_option("NAME", flags->names, "the subjects; none: all")->type_name("");
  add_native_server(*command, flags->server);
  command->add_flag("--json", flags->json, "a line of JSON for each");
  command->callback([flags, &run] { run = [flags] { return usage(*flags); }; });
}

}  // namespace sluice::cli
