#include "cli/check_config_command.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "policy/rule_book.hpp"
#include "policy/rule_file.hpp"

namespace sluice::cli {
namespace {

constexpr const char* description =
    R"(Checks a policy file (--config-file) and prints everything that is wrong with it.

  sluicegate check-config limits.json
  sluicegate check-config limits.json --key premium-7 --key user:1

With --key it says which entries apply to a key, in their order, and what limits result: the
server's own, as given by the flags, overwritten by every entry that matches.

Exit code: 0 when the file is good, 1 when not, 2 when it cannot be read.
)";

struct CheckFlags {
  std::string file;
  std::vector<std::string> keys;
  limiter::Policy standard;
};

std::string in_quotes(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string text_of(const policy::Rule& rule) {
  std::string text = in_quotes(rule.pattern) + (rule.is_regex ? " (regular expression)" : "");
  if (rule.max_requests) text += fmt::format(", max_requests_per_window {}", *rule.max_requests);
  if (rule.max_requests_in_queue == 0U) {
    text += ", can_queue false";
  } else if (rule.max_requests_in_queue) {
    text += fmt::format(", max_requests_in_queue {}", *rule.max_requests_in_queue);
  }
  if (rule.window_ms) text += fmt::format(", window_millis {}", *rule.window_ms);
  return text;
}

void explain(const std::string& key, policy::RuleBook& book) {
  std::puts((in_quotes(key) + ":").c_str());
  for (const int index : book.matches(key)) {
    const policy::Rule& rule = book.rules()[static_cast<size_t>(index)];
    std::puts(fmt::format("  keys[{}] {}", index, text_of(rule)).c_str());
  }
  const limiter::Policy policy = book.policy_of(key);
  std::puts(fmt::format("  {} requests per window of {} ms, {} in the queue", policy.max_requests,
                        policy.window_ms, policy.max_requests_in_queue)
                .c_str());
}

int check(const CheckFlags& flags) {
  const policy::TextFile read = policy::read_text_file(flags.file);
  if (!read.error.empty()) {
    std::fputs(fmt::format("Error: {}: {}\n", flags.file, read.error).c_str(), stderr);
    return 2;
  }
  policy::ParsedRules parsed = policy::parse_rules(read.text);
  for (const std::string& complaint : parsed.complaints) {
    std::fputs(fmt::format("{}: {}\n", flags.file, complaint).c_str(), stderr);
  }
  if (!parsed.complaints.empty()) return 1;
  const size_t count = parsed.rules.size();
  std::puts(
      fmt::format("{}: good, {} entr{}", flags.file, count, count == 1 ? "y" : "ies").c_str());
  policy::RuleBook book{flags.standard, std::move(parsed.rules)};
  for (const std::string& key : flags.keys) explain(key, book);
  return 0;
}

}  // namespace

void add_check_config_command(CLI::App& app, std::function<int()>& run) {
  CLI::App* command = app.add_subcommand("check-config", description);
  const auto flags = std::make_shared<CheckFlags>();
  command->add_option("FILE", flags->file, "the policy file")->type_name("")->required();
  command->add_option("--key", flags->keys, "which entries apply to this key; may be repeated")
      ->type_name("KEY")
      ->allow_extra_args(false);
  const auto add = [&](const char* name, auto& value, const char* text, int64_t min, int64_t max) {
    using Value = std::decay_t<decltype(value)>;
    command->add_option(name, value, text)
        ->type_name("N")
        ->check(CLI::Range(static_cast<Value>(min), static_cast<Value>(max)).description(""))
        ->capture_default_str();
  };
  add("--max-requests", flags->standard.max_requests, "the server's flag", 1, limits::permits_max);
  add("--max-requests-in-queue", flags->standard.max_requests_in_queue, "likewise", 0,
      limits::queue_max);
  add("--window-millis", flags->standard.window_ms, "likewise", limits::window_ms_min, 3'600'000);
  command->callback([flags, &run] { run = [flags] { return check(*flags); }; });
}

}  // namespace sluice::cli
