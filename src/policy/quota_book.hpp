// Finds the quota of a subject: the configuration file's by name, else by its longest prefix, else
// by its first pattern that matches; else that of the profiles' entry that matches the longest part
// of the name, which also precedes a prefix of the file that is shorter; else the file's quota for
// unknown subjects.
// Shape:  names are found by hash; all regular expressions are matched at once. Of several entries
//         of profiles that match the same length the last one counts.
// Errors: the constructor throws std::runtime_error when the patterns together are too large.
// Lives:  one thread; part of a RuleBook, of which each shard has its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/limit.hpp"
#include "policy/pattern_set.hpp"
#include "policy/prefix_set.hpp"

namespace sluice::policy {

struct QuotaRule {
  std::string subject;     // a whole name or prefix; or RE2 that matches anywhere in a name
  bool is_regex = false;   // at most one of these two
  bool is_prefix = false;  // of other names, too (prefix_set.hpp)
  api::Quota quota;
  api::QuotaSource source = api::QuotaSource::file;  // or profile

  bool operator==(const QuotaRule&) const = default;
};

enum class UnknownSubjects : uint8_t { allow, deny, use_quota };

// The quotas of a configuration file; without a file every subject is unknown and allowed.
struct QuotaRules {
  std::vector<QuotaRule> rules;  // in the file's order, then those of profiles
  UnknownSubjects unknown = UnknownSubjects::allow;
  api::Quota unknown_quota;       // of unknown subjects, with UnknownSubjects::use_quota
  uint32_t lifetime_ms = 60'000;  // of a reservation that gives none
  uint64_t output_tokens = 0;     // reserved when a call gives none, as far as they fit
  bool operator==(const QuotaRules&) const = default;
};

struct SubjectQuota {
  const api::Quota* quota = nullptr;  // until the book ends; null: the subject is unknown
  api::QuotaSource source = api::QuotaSource::none;
  uint32_t place = 0;  // of the quota in the book: its rule's index, or the last place
};

class QuotaBook {
 public:
  explicit QuotaBook(QuotaRules rules = {});
  QuotaBook(const QuotaBook&) = delete;
  QuotaBook& operator=(const QuotaBook&) = delete;

  const QuotaRules& rules() const noexcept { return rules_; }
  SubjectQuota quota_of(std::string_view subject);
  // The index of the rule for the subject; -1: none.
  int rule_of(std::string_view subject);
  // Whether a rule of the file or a profile names the subject; also a rule that another precedes.
  bool names(std::string_view subject) const;
  // The places of all quotas are below this.
  uint32_t places_end() const noexcept { return static_cast<uint32_t>(rules_.rules.size()) + 1; }

 private:
  // Rules by their index. A prefix is a name, too.
  struct Entries {
    std::unordered_map<std::string_view, int> names;
    PrefixSet prefixes;
    PatternSet patterns;
  };

  void add(size_t index);
  static void compile(Entries& entries, const char* place);
  NameMatch file_match(std::string_view subject);
  int file_pattern_of(std::string_view subject);
  NameMatch profile_match(std::string_view subject);

  const QuotaRules rules_;
  Entries of_file_;
  Entries of_profiles_;
  std::vector<int> matches_;
};

}  // namespace sluice::policy
