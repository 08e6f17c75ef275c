// What a configuration file says under "quotas" -> QuotaRules, or everything that is wrong with it.
// Flow:   parse_rules() -> read_quotas() -> QuotaRules -> QuotaBook. Profiles that it names are
// read
//         by a function, so that nothing but read_profiles_in() touches files.
// Shape:  {"profiles": ["openai", "./mine.json"],
//          "unknown_subjects": "allow" | "deny" | {"limits": [...]},
//          "subjects": [{"subject": "NAME or RE2", "subject_is_regex": false, "limits": [...]}],
//          "default_lifetime_ms": 60000, "default_output_tokens": 0}
//         A profile: {"date": "2026-02", "about": "...", "subjects": [{"subject": "NAME", ...}]}
//         null: not told. Fields of a quota: quota_text.hpp.
// Errors: a complaint names the subject by its place and name, the field, and the cure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "policy/quota_book.hpp"
#include "text/json.hpp"

namespace sluice::policy {

inline constexpr size_t subjects_max = 100'000;  // of a file, and of a profile
inline constexpr size_t profiles_max = 32;

struct ProfileFile {
  std::string path;
  std::string text;
  std::string error;      // why there is no text; empty: there is one
  std::string complaint;  // what is told then, with the cure
  bool operator==(const ProfileFile&) const = default;
};

// By what the configuration file calls it.
using ReadProfile = std::function<ProfileFile(const std::string& name)>;

ProfileFile no_profile(const std::string& name);

// "openai" is openai.json in `folder`; what has a slash is a path, relative to the configuration
// file's folder.
ReadProfile read_profiles_in(std::string folder, const std::string& config_file);

// Also gives the profiles that it has read, in their order, those that failed too.
QuotaRules read_quotas(const text::Json& value, const ReadProfile& read_profile,
                       std::vector<ProfileFile>& profiles, std::vector<std::string>& complaints);

// A subject as a file would have it, in one line.
std::string subject_text(const QuotaRule& rule);

}  // namespace sluice::policy
