#include "cli/check_config_command.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/between.hpp"
#include "config/config.hpp"
#include "policy/quota_text.hpp"
#include "policy/rule_book.hpp"
#include "policy/rule_file.hpp"
#include "text/counted.hpp"
#include "text/json.hpp"
#include "text/quote.hpp"

namespace sluice::cli {
namespace {

constexpr const char* check_config_description =
    R"(Checks a configuration file (--config-file) and prints everything that is wrong with it.

  sluicegate check-config limits.json
  sluicegate check-config limits.json --key premium-7 --key user:1
  sluicegate check-config limits.json --subject gpt-4o

With --key it prints which entries apply to a key, in their order, and the limits that result: the
server's own, as given by the flags, overwritten by every entry that matches. With --subject it
prints which quota a subject has, and where it comes from.

Exit code: 0 when the file is good, 1 when not, 2 when it cannot be read.
)";

struct CheckFlags {
  std::string file;
  std::vector<std::string> keys;
  std::vector<std::string> subjects;
  std::string profiles = config::installed_profiles();
  uint32_t max_key_bytes = config::Config{}.max_key_bytes;
  limiter::Policy default_policy;
};

void explain(const std::string& key, policy::RuleBook& book) {
  std::puts((text::in_quotes(key) + ":").c_str());
  for (const int index : book.matches(key)) {
    const policy::Rule& rule = book.rules()[static_cast<size_t>(index)];
    std::puts(fmt::format("  keys[{}] {}", index, policy::entry_text(rule)).c_str());
  }
  const limiter::Policy policy = book.policy_of(key);
  std::puts(fmt::format("  {} requests per window of {} ms, {} in the queue", policy.max_requests,
                        policy.window_ms, policy.max_requests_in_queue)
                .c_str());
}

// "; quotas of 2 subjects and of 11 of profiles, unknown ones are allowed"
std::string summary(const policy::QuotaRules& quotas) {
  const auto is_of_profile = [](const policy::QuotaRule& rule) {
    return rule.source == api::QuotaSource::profile;
  };
  const auto of_profiles = static_cast<size_t>(std::ranges::count_if(quotas.rules, is_of_profile));
  const char* unknown = quotas.unknown == policy::UnknownSubjects::allow  ? "are allowed"
                        : quotas.unknown == policy::UnknownSubjects::deny ? "are denied"
                                                                          : "have a quota";
  return fmt::format("; quotas of {} and of {} of profiles, unknown ones {}",
                     text::counted(quotas.rules.size() - of_profiles, "subject", "subjects"),
                     of_profiles, unknown);
}

std::string source_of(const std::string& subject, policy::QuotaBook& book) {
  const int index = book.rule_of(subject);
  if (index < 0) {
    switch (book.rules().unknown) {
      case policy::UnknownSubjects::allow:
        return "unknown, and allowed";
      case policy::UnknownSubjects::deny:
        return "unknown, and denied";
      case policy::UnknownSubjects::use_quota:
        return "unknown: unknown_subjects";
    }
  }
  const policy::QuotaRule& rule = book.rules().rules[static_cast<size_t>(index)];
  const char* kind = rule.is_regex ? " (regular expression)" : rule.is_prefix ? " (prefix)" : "";
  const std::string entry = text::in_quotes(rule.subject) + kind;
  if (!rule.quota.profile.empty()) return "profile " + rule.quota.profile + ", " + entry;
  return fmt::format("quotas.subjects[{}] {}", index, entry);
}

void explain_subject(const std::string& subject, policy::QuotaBook& book) {
  std::puts((text::in_quotes(subject) + ":").c_str());
  std::puts(("  " + source_of(subject, book)).c_str());
  const api::Quota* quota = book.quota_of(subject).quota;
  if (quota == nullptr) return;
  for (const api::Limit& limit : quota->limits) {
    std::puts(("  " + text::one_line(policy::limit_json(limit))).c_str());
  }
  if (quota->limits.empty()) std::puts("  no limits");
  if (quota->refund_expired) std::puts("  expired reservations are refunded");
  if (quota->overtakers_max > 0) {
    std::puts(
        fmt::format("  {} may overtake the head of the queue", quota->overtakers_max).c_str());
  }
}

int check(const CheckFlags& flags) {
  const policy::TextFile read = policy::read_text_file(flags.file);
  if (!read.error.empty()) {
    std::fputs(fmt::format("Error: {}: {}\n", flags.file, read.error).c_str(), stderr);
    return 2;
  }
  policy::ParsedRules parsed = policy::parse_rules(
      read.text, policy::read_profiles_in(flags.profiles, flags.file), flags.max_key_bytes);
  for (const std::string& complaint : parsed.complaints) {
    std::fputs(fmt::format("{}: {}\n", flags.file, complaint).c_str(), stderr);
  }
  if (!parsed.complaints.empty()) return 1;
  const bool has_quotas = parsed.quotas != policy::QuotaRules{};
  std::puts(fmt::format("{}: good, {}{}", flags.file,
                        text::counted(parsed.rules.size(), "entry", "entries"),
                        has_quotas ? summary(parsed.quotas) : "")
                .c_str());
  policy::RuleBook book{flags.default_policy, std::move(parsed.rules), std::move(parsed.quotas)};
  for (const std::string& key : flags.keys) explain(key, book);
  for (const std::string& subject : flags.subjects) explain_subject(subject, book.quotas());
  return 0;
}

}  // namespace

void add_check_config_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("check-config", check_config_description);
  const auto flags = std::make_shared<CheckFlags>();
  command->add_option("FILE", flags->file, "the configuration file")->type_name("")->required();
  command->add_option("--key", flags->keys, "which entries apply to this key; may be repeated")
      ->type_name("KEY")
      ->allow_extra_args(false);
  command->add_option("--subject", flags->subjects, "which quota this subject has; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command->add_option("--profiles", flags->profiles, "the server's --profiles")
      ->type_name("DIR")
      ->capture_default_str();
  const auto add = [&](const NumberOption& option, auto& value) {
    const std::string name{option.name};
    command->add_option(name, value, "the server's " + name)
        ->type_name("N")
        ->check(between(option))
        ->capture_default_str();
  };
  add(server_flag("--max-requests"), flags->default_policy.max_requests);
  add(server_flag("--max-requests-in-queue"), flags->default_policy.max_requests_in_queue);
  add(server_flag("--window-millis"), flags->default_policy.window_ms);
  add(server_flag("--max-key-bytes"), flags->max_key_bytes);
  command->callback([flags, &run] { run = [flags] { return check(*flags); }; });
}

}  // namespace sluice::cli
