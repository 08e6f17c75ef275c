#include "cli/quota_dry_run.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "cli/quota_words.hpp"

namespace sluice::cli {
namespace {

using sluicegate::LimitState;

std::string used_text(const sluicegate::SubjectState& subject, const sluicegate::Limit& limit) {
  const auto state = std::find_if(subject.limits.begin(), subject.limits.end(),
                                  [&](const LimitState& each) { return each.name == limit.name; });
  if (state == subject.limits.end()) return "";
  return fmt::format("  {} used, {} of it reserved", state->used, state->reserved);
}

std::string present_text(const sluicegate::SubjectState& subject) {
  if (has_no_quota(subject)) return "  no quota\n";
  if (subject.quota.limits.empty()) return "  no limits\n";
  std::string text;
  for (const sluicegate::Limit& limit : subject.quota.limits) {
    text += "  " + limit_words(limit) + used_text(subject, limit) + "\n";
  }
  return text;
}

std::string future_text(const DryRun& run) {
  if (run.change == QuotaChange::remove) return "  the configuration file's quota\n";
  if (run.change == QuotaChange::reset) return "  usage is 0, except for open reservations\n";
  if (run.quota.limits.empty()) return "  no limits\n";
  std::string text;
  for (const sluicegate::Limit& limit : run.quota.limits) text += "  " + limit_words(limit) + "\n";
  return text;
}

}  // namespace

std::string dry_run_text(const DryRun& run) {
  return "now:\n" + present_text(run.present) + "then:\n" + future_text(run) +
         "nothing was changed\n";
}

std::string dry_run_json(const DryRun& run) {
  text::Json json{{"dry_run", true}, {"subject", run.present.name}};
  if (run.change == QuotaChange::set) json["quota"] = quota_json(run.quota);
  if (!has_no_quota(run.present)) json["present"] = subject_json(run.present);
  return text::indented(json);
}

}  // namespace sluice::cli
