#include "policy/rule_file.hpp"

#include <re2/re2.h>

#include <cctype>
#include <stdexcept>

#include "policy/number_fields.hpp"
#include "policy/rule_book.hpp"
#include "text/json.hpp"
#include "text/quote.hpp"

namespace sluice::policy {
namespace {

using text::Json;
using text::quoted_excerpt;
using text::shown;

constexpr size_t complaints_max = 100;

std::string lower(std::string_view text) {
  std::string result{text};
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Reads one entry of "keys", field by field.
class EntryReader {
 public:
  EntryReader(size_t index, const Json& entry, std::vector<std::string>& complaints)
      : name_("keys[" + std::to_string(index) + "]"), complaints_(complaints) {
    if (!entry.is_object()) {
      complain("", "must be an object, not " + shown(entry));
      return;
    }
    for (const auto& [name, value] : entry.items()) {
      if (lower(name) == "key_pattern" && value.is_string()) {
        name_ += " (" + quoted_excerpt(value.get_ref<const std::string&>()) + ")";
      }
    }
    for (const auto& [name, value] : entry.items()) read(lower(name), name, value);
    check();
  }

  Rule take() { return std::move(rule_); }

 private:
  void complain(const std::string& field, const std::string& what) {
    complaints_.push_back(name_ + (field.empty() ? "" : ", " + field) + ": " + what);
  }

  void read(const std::string& field, const std::string& written, const Json& value) {
    if (value.is_null()) return;
    if (field == "key_pattern") {
      read_pattern(value);
    } else if (field == "key_pattern_is_regex") {
      read_switch(field, value, rule_.is_regex);
    } else if (field == "max_requests_per_window") {
      read_number(max_requests_field, value, rule_.max_requests);
    } else if (field == "max_requests_in_queue") {
      read_number(max_queue_field, value, rule_.max_requests_in_queue);
    } else if (field == "window_millis") {
      read_number(window_field, value, rule_.window_ms);
    } else if (field == "can_queue") {
      read_switch(field, value, can_queue_);
    } else {
      complain(quoted_excerpt(written),
               "no such field; there are key_pattern, key_pattern_is_regex, "
               "max_requests_per_window, max_requests_in_queue, window_millis and can_queue");
    }
  }

  void read_pattern(const Json& value) {
    has_pattern_ = true;
    if (!value.is_string()) {
      complain("key_pattern", "must be a string, not " + shown(value));
      pattern_is_good_ = false;
      return;
    }
    rule_.pattern = value.get<std::string>();
  }

  void read_switch(const std::string& field, const Json& value, bool& out) {
    if (!value.is_boolean()) {
      complain(field, "must be true or false, not " + shown(value));
      return;
    }
    out = value.get<bool>();
  }

  // Zero is gocc's "not set".
  template <typename Integer>
  void read_number(const NumberField& field, const Json& value, std::optional<Integer>& out) {
    out.reset();  // of a field that is given twice, the last one counts
    if (value.is_number_integer() && value == 0) return;
    if (const auto number = text::whole_number(value, field)) {
      out = static_cast<Integer>(*number);
      return;
    }
    complain(std::string{field.name}, "must be a whole number from " + std::to_string(field.min) +
                                          " to " + std::to_string(field.max) +
                                          ", or 0 for not set; not " + shown(value));
  }

  void check() {
    if (pattern_is_good_) check_pattern();
    if (can_queue_) return;
    if (rule_.max_requests_in_queue) {
      complain("can_queue", "is false while max_requests_in_queue is set: leave one of them out");
    }
    rule_.max_requests_in_queue = 0;
  }

  void check_pattern() {
    if (!has_pattern_) {
      complain("key_pattern", "is missing: name the keys of the entry");
    } else if (rule_.pattern.empty() && !rule_.is_regex) {
      complain("key_pattern",
               "is empty and matches no key; every key is \".*\" with "
               "\"key_pattern_is_regex\": true");
    } else if (rule_.is_regex) {
      const RE2 regex{rule_.pattern, RE2::Quiet};
      if (!regex.ok()) complain("key_pattern", "is not a regular expression: " + regex.error());
    }
  }

  std::string name_;
  std::vector<std::string>& complaints_;
  Rule rule_;
  bool has_pattern_ = false;
  bool pattern_is_good_ = true;  // it is a string
  bool can_queue_ = true;
};

void read_keys(const Json& value, ParsedRules& parsed) {
  parsed.rules.clear();
  if (value.is_null()) return;
  if (!value.is_array()) {
    parsed.complaints.push_back("keys: must be an array of entries, not " + shown(value));
  } else if (value.size() > rules_max) {
    parsed.complaints.push_back("keys: has " + std::to_string(value.size()) + " entries; at most " +
                                std::to_string(rules_max) +
                                " are allowed: let patterns match many keys");
  } else {
    for (size_t index = 0; index < value.size(); ++index) {
      parsed.rules.push_back(EntryReader(index, value[index], parsed.complaints).take());
    }
  }
}

void read_file(const Json& file, const ReadProfile& read_profile, ParsedRules& parsed) {
  if (!file.is_object()) {
    parsed.complaints.push_back("must be an object with \"keys\" or \"quotas\", not " +
                                shown(file));
    return;
  }
  for (const auto& [name, value] : file.items()) {
    if (lower(name) == "keys") {
      read_keys(value, parsed);
    } else if (lower(name) == "quotas") {
      parsed.profiles.clear();
      parsed.quotas = value.is_null()
                          ? QuotaRules{}
                          : read_quotas(value, read_profile, parsed.profiles, parsed.complaints);
    } else {
      parsed.complaints.push_back(quoted_excerpt(name) +
                                  ": no such field; there are \"keys\" and \"quotas\"");
    }
  }
}

// A name that the server refuses from every client. Entries of profiles stand behind the file's.
void check_lengths(size_t name_bytes_max, ParsedRules& parsed) {
  const auto check = [&](const std::string& place, const std::string& name, bool is_regex) {
    if (is_regex || name.size() <= name_bytes_max) return;
    parsed.complaints.push_back(place + " (" + quoted_excerpt(name) + "): has " +
                                std::to_string(name.size()) + " bytes, and the server takes " +
                                std::to_string(name_bytes_max) +
                                " at most: give a shorter name, or raise --max-key-bytes");
  };
  for (size_t i = 0; i < parsed.rules.size(); ++i) {
    check("keys[" + std::to_string(i) + "]", parsed.rules[i].pattern, parsed.rules[i].is_regex);
  }
  for (size_t i = 0; i < parsed.quotas.rules.size(); ++i) {
    const QuotaRule& rule = parsed.quotas.rules[i];
    const bool is_of_file = rule.source == api::QuotaSource::file;
    check(is_of_file ? "quotas.subjects[" + std::to_string(i) + "]"
                     : "a subject of the profile " + rule.quota.profile,
          rule.subject, rule.is_regex);
  }
}

}  // namespace

ParsedRules parse_rules(std::string_view text, const ReadProfile& read_profile,
                        size_t name_bytes_max) {
  ParsedRules parsed;
  if (text.size() > file_bytes_max) {
    parsed.complaints.push_back("has more than " + std::to_string(file_bytes_max) +
                                " bytes: let patterns match many keys");
    return parsed;
  }
  if (text.find_first_not_of(" \t\r\n") == text.npos) {
    parsed.complaints.emplace_back("is empty: a file without rules is {\"keys\": []}");
    return parsed;
  }
  const text::ParsedJson json = text::parse_json(text);
  if (json.complaint.empty()) {
    read_file(json.value, read_profile, parsed);
  } else {
    parsed.complaints.push_back(json.complaint);
  }
  if (parsed.complaints.empty()) check_lengths(name_bytes_max, parsed);
  if (parsed.complaints.empty()) {
    try {
      const RuleBook book{limiter::Policy{}, parsed.rules, parsed.quotas};
    } catch (const std::runtime_error& error) {
      parsed.complaints.emplace_back(error.what());
    }
  }
  if (parsed.complaints.size() > complaints_max) {
    const size_t more = parsed.complaints.size() - complaints_max;
    parsed.complaints.resize(complaints_max);
    parsed.complaints.push_back("and " + std::to_string(more) + " more");
  }
  if (!parsed.complaints.empty()) {
    parsed.rules.clear();
    parsed.quotas = {};
  }
  return parsed;
}

std::string entry_text(const Rule& rule) {
  Json entry{{"key_pattern", rule.pattern}};
  if (rule.is_regex) entry["key_pattern_is_regex"] = true;
  if (rule.max_requests) entry["max_requests_per_window"] = *rule.max_requests;
  if (rule.max_requests_in_queue == 0U) {
    entry["can_queue"] = false;
  } else if (rule.max_requests_in_queue) {
    entry["max_requests_in_queue"] = *rule.max_requests_in_queue;
  }
  if (rule.window_ms) entry["window_millis"] = *rule.window_ms;
  return text::one_line(entry);
}

}  // namespace sluice::policy
