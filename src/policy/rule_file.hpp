// The text of a configuration file -> its rules, or all complaints about it at once.
// Flow:   --config-file, check-config -> read_text_file() -> parse_rules() -> RuleBook.
// Shape:  {"keys": [{"key_pattern": "...", "key_pattern_is_regex": false,
//                    "max_requests_per_window": 0, "max_requests_in_queue": 0,
//                    "window_millis": 0, "can_queue": true}, ...],
//          "quotas": {...}}                                           (quota_file.hpp)
//         Names, except those under "quotas", match in any case. 0 and null: not set.
//         `"can_queue": false` sets the queue's length to 0, which the number 0 cannot do.
// Errors: a complaint names the entry by its place and pattern, the field, and the cure.
// Source: gocc's configuration file, read more strictly; docs/configuration.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/limits.hpp"
#include "policy/quota_file.hpp"
#include "policy/rule.hpp"
#include "policy/text_file.hpp"

namespace sluice::policy {

inline constexpr size_t rules_max = 100'000;

struct ParsedRules {
  std::vector<Rule> rules;
  QuotaRules quotas;
  std::vector<ProfileFile> profiles;    // that the file names, as they were read
  std::vector<std::string> complaints;  // none: the rules are valid
};

// Rules without complaints also fit into a RuleBook, and name only keys and subjects that a server
// with --max-key-bytes `name_bytes_max` takes.
ParsedRules parse_rules(std::string_view text, const ReadProfile& read_profile = no_profile,
                        size_t name_bytes_max = limits::key_bytes_max);

// The rule as an entry of a file, in one line.
std::string entry_text(const Rule& rule);

}  // namespace sluice::policy
