// The "quotas" of a configuration file -> QuotaRules, or all complaints about them.
// Flow:   parse_rules() -> read_quotas() -> QuotaRules -> QuotaBook. A function reads the profiles
//         that the file names, so that only read_profiles_in() touches files.
// Shape:  {"profiles": ["openai", "./mine.json"],
//          "unknown_subjects": "allow" | "deny" | {"limits": [...]},
//          "subjects": [{"subject": "NAME or RE2", "subject_is_regex": false,
//                        "subject_is_prefix": false, "limits": [...]}],
//          "default_lifetime_ms": 60000, "default_output_tokens": 0}
//         A profile: {"date": "2026-02", "about": "...", "subjects": [as above]}
//         null counts as absent. Fields of a quota: quota_text.hpp.
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
  std::string error;      // why the text is missing; empty: it was read
  std::string complaint;  // the error with the cure, for people
  bool operator==(const ProfileFile&) const = default;
};

// Reads the profile that has this name in the configuration file.
using ReadProfile = std::function<ProfileFile(const std::string& name)>;

ProfileFile no_profile(const std::string& name);

// "openai" is openai.json in `folder`; a name with a slash is a path, relative to the configuration
// file's folder.
ReadProfile read_profiles_in(std::string folder, const std::string& config_file);

// Appends the profiles that it has read to `profiles`, in their order, including those that failed.
QuotaRules read_quotas(const text::Json& value, const ReadProfile& read_profile,
                       std::vector<ProfileFile>& profiles, std::vector<std::string>& complaints);

// A subject as an entry of a file, in one line.
std::string subject_text(const QuotaRule& rule);

}  // namespace sluice::policy
