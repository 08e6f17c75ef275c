#include "policy/quota_book.hpp"

#include <algorithm>
#include <stdexcept>

namespace sluice::policy {

QuotaBook::QuotaBook(QuotaRules rules) : rules_(std::move(rules)) {
  for (size_t i = 0; i < rules_.rules.size(); ++i) {
    const QuotaRule& rule = rules_.rules[i];
    const int index = static_cast<int>(i);
    if (rule.source == api::QuotaSource::profile) {
      profile_names_.insert_or_assign(rule.subject, index);
    } else if (!rule.is_regex) {
      names_.emplace(rule.subject, index);
    } else if (const auto error = patterns_.add(rule.subject, index); !error.empty()) {
      throw std::runtime_error("quotas.subjects[" + std::to_string(i) + "], subject: " + error);
    }
  }
  if (const std::string error = patterns_.compile(); !error.empty()) {
    throw std::runtime_error("quotas.subjects: " + error);
  }
  matches_.reserve(rules_.rules.size());
}

int QuotaBook::rule_of(std::string_view subject) {
  if (const auto named = names_.find(subject); named != names_.end()) return named->second;
  matches_.clear();
  patterns_.match(subject, matches_);
  if (!matches_.empty()) return *std::ranges::min_element(matches_);
  const auto found = profile_names_.find(subject);
  return found != profile_names_.end() ? found->second : -1;
}

SubjectQuota QuotaBook::quota_of(std::string_view subject) {
  if (const int index = rule_of(subject); index >= 0) {
    const QuotaRule& rule = rules_.rules[static_cast<size_t>(index)];
    return {.quota = &rule.quota, .source = rule.source, .place = static_cast<uint32_t>(index)};
  }
  if (rules_.unknown != UnknownSubjects::use_quota) return {};
  return {.quota = &rules_.unknown_quota,
          .source = api::QuotaSource::file_default,
          .place = places_end() - 1};
}

bool QuotaBook::names(std::string_view subject) const {
  return names_.contains(subject) || profile_names_.contains(subject);
}

}  // namespace sluice::policy
