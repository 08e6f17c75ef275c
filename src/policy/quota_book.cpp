#include "policy/quota_book.hpp"

#include <algorithm>
#include <stdexcept>

namespace sluice::policy {

QuotaBook::QuotaBook(QuotaRules rules) : rules_(std::move(rules)) {
  for (size_t index = 0; index < rules_.rules.size(); ++index) add(index);
  compile(of_file_, "quotas.subjects");
  compile(of_profiles_, "quotas.profiles");
  matches_.reserve(rules_.rules.size());
}

void QuotaBook::add(size_t index) {
  const QuotaRule& rule = rules_.rules[index];
  const int number = static_cast<int>(index);
  const bool is_of_profile = rule.source == api::QuotaSource::profile;
  Entries& entries = is_of_profile ? of_profiles_ : of_file_;
  if (rule.is_regex) {
    const auto error = entries.patterns.add(rule.subject, number);
    if (error.empty()) return;
    const std::string place = is_of_profile
                                  ? "quotas.profiles, " + rule.subject
                                  : "quotas.subjects[" + std::to_string(index) + "], subject";
    throw std::runtime_error(place + ": " + error);
  }
  if (rule.is_prefix) entries.prefixes.add(rule.subject, number);
  if (is_of_profile) {
    entries.names.insert_or_assign(rule.subject, number);
  } else {
    entries.names.emplace(rule.subject, number);
  }
}

void QuotaBook::compile(Entries& entries, const char* place) {
  const std::string error = entries.patterns.compile();
  if (!error.empty()) throw std::runtime_error(std::string{place} + ": " + error);
}

int QuotaBook::rule_of(std::string_view subject) {
  const NameMatch own = file_match(subject);
  if (own.number >= 0 && own.bytes >= subject.size()) return own.number;
  const NameMatch other = profile_match(subject);
  if (own.number < 0) return other.number;
  if (own.bytes >= other.bytes) return own.number;
  const int pattern = file_pattern_of(subject);
  return pattern >= 0 ? pattern : other.number;
}

// A pattern of the file counts as the whole name.
NameMatch QuotaBook::file_match(std::string_view subject) {
  const Entries& entries = of_file_;
  if (const auto named = entries.names.find(subject); named != entries.names.end()) {
    return {.number = named->second, .bytes = subject.size()};
  }
  if (const auto prefix = entries.prefixes.find_longest(subject)) return *prefix;
  return {.number = file_pattern_of(subject), .bytes = subject.size()};
}

// The first that matches; -1: none does.
int QuotaBook::file_pattern_of(std::string_view subject) {
  matches_.clear();
  of_file_.patterns.match(subject, matches_);
  return matches_.empty() ? -1 : *std::ranges::min_element(matches_);
}

NameMatch QuotaBook::profile_match(std::string_view subject) {
  const Entries& entries = of_profiles_;
  if (const auto named = entries.names.find(subject); named != entries.names.end()) {
    return {.number = named->second, .bytes = subject.size()};
  }
  NameMatch best = entries.prefixes.find_longest(subject).value_or(NameMatch{});
  matches_.clear();
  of_profiles_.patterns.match(subject, matches_);
  for (const int number : matches_) {
    const size_t bytes = of_profiles_.patterns.match_bytes(subject, number);
    if (best.number < 0 || bytes > best.bytes || (bytes == best.bytes && number > best.number)) {
      best = {.number = number, .bytes = bytes};
    }
  }
  return best;
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
  return of_file_.names.contains(subject) || of_profiles_.names.contains(subject);
}

}  // namespace sluice::policy
