// Which quota a subject has: the configuration file's by name, else by its first pattern that
// matches, else a profile's by name, else what the file says of unknown subjects.
// Shape:  names are found by hash; all regular expressions are matched at once. Of the same name in
//         several profiles the last one counts.
// Errors: the constructor throws std::runtime_error when the patterns together are too large.
// Lives:  one thread; each core has its own, as a RuleBook, which owns it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/limit.hpp"
#include "policy/pattern_set.hpp"

namespace sluice::policy {

struct QuotaRule {
  std::string subject;    // a whole name; or RE2 that matches anywhere in one
  bool is_regex = false;  // never of a profile
  api::Quota quota;
  api::QuotaSource source = api::QuotaSource::file;  // or profile

  bool operator==(const QuotaRule&) const = default;
};

enum class UnknownSubjects : uint8_t { allow, deny, standard };

// What a configuration file says about quotas; without one: every subject is unknown and allowed.
struct QuotaRules {
  std::vector<QuotaRule> rules;  // in the file's order, those of profiles behind
  UnknownSubjects unknown = UnknownSubjects::allow;
  api::Quota standard;            // of unknown subjects, when they have one
  uint32_t lifetime_ms = 60'000;  // of a reservation that tells none
  uint64_t output_tokens = 0;     // reserved when none are told, as far as they fit
  bool operator==(const QuotaRules&) const = default;
};

struct SubjectQuota {
  const api::Quota* quota = nullptr;  // until the book ends; null: the subject is unknown
  api::QuotaSource source = api::QuotaSource::none;
  uint32_t place = 0;  // of the quota, among the book's: its rule's index, or the last one
};

class QuotaBook {
 public:
  explicit QuotaBook(QuotaRules rules = {});
  QuotaBook(const QuotaBook&) = delete;
  QuotaBook& operator=(const QuotaBook&) = delete;

  const QuotaRules& rules() const noexcept { return rules_; }
  SubjectQuota quota_of(std::string_view subject);
  // The rule that gives it, by its index; -1: none.
  int rule_of(std::string_view subject);
  // Whether a rule names it, in the file or a profile; also one that another rule comes before.
  bool names(std::string_view subject) const;
  // Quotas have places below this.
  uint32_t places_end() const noexcept { return static_cast<uint32_t>(rules_.rules.size()) + 1; }

 private:
  using Names = std::unordered_map<std::string_view, int>;
  const QuotaRules rules_;
  Names names_;
  Names profile_names_;
  PatternSet patterns_;
  std::vector<int> matches_;
};

}  // namespace sluice::policy
