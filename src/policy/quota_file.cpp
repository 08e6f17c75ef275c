#include "policy/quota_file.hpp"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <unordered_map>

#include "policy/number_fields.hpp"
#include "policy/quota_text.hpp"
#include "policy/text_file.hpp"
#include "text/joined_list.hpp"
#include "text/quote.hpp"

namespace sluice::policy {
namespace {

using api::QuotaSource;
using text::Json;
using text::quoted_excerpt;
using text::shown;
using Complaints = std::vector<std::string>;

std::string entry_place(const std::string& list, size_t index, const Json& entry,
                        const char* field) {
  const std::string place = list + "[" + std::to_string(index) + "]";
  const auto name = entry.is_object() ? entry.find(field) : entry.end();
  const bool named = entry.is_object() && name != entry.end() && name->is_string();
  return named ? place + " (" + quoted_excerpt(name->get_ref<const std::string&>()) + ")" : place;
}

// Checks for an array of at most `count_max` entries and complains of anything else.
bool check_array(const Json& value, const std::string& place, size_t count_max,
                 Complaints& complaints) {
  if (!value.is_array()) {
    complaints.push_back(place + ": must be an array, not " + shown(value));
    return false;
  }
  if (value.size() <= count_max) return true;
  complaints.push_back(place + ": has " + std::to_string(value.size()) + " entries; at most " +
                       std::to_string(count_max) + " are allowed");
  return false;
}

// Reads "subjects" of the file or of a profile.
class SubjectsReader {
 public:
  SubjectsReader(std::string place, QuotaSource source, Complaints& complaints)
      : place_(std::move(place)), source_(source), complaints_(complaints) {}

  std::vector<QuotaRule> read(const Json& value) {
    if (check_array(value, place_, subjects_max, complaints_)) {
      for (size_t i = 0; i < value.size(); ++i) read_entry(i, value[i]);
    }
    return std::move(rules_);
  }

 private:
  void read_entry(size_t index, const Json& entry) {
    static constexpr std::array<std::string_view, 3> fields{"subject", "subject_is_regex",
                                                            "subject_is_prefix"};
    const std::string place = entry_place(place_, index, entry, "subject");
    QuotaRule rule{.subject = "", .quota = {}, .source = source_};
    rule.quota = read_quota(entry, place, fields, complaints_);
    if (!entry.is_object()) return;
    read_switch(entry, place, "subject_is_regex", rule.is_regex);
    read_switch(entry, place, "subject_is_prefix", rule.is_prefix);
    if (rule.is_regex && rule.is_prefix) {
      complaints_.push_back(place +
                            ", subject_is_prefix: is true beside subject_is_regex: keep one of "
                            "them");
    }
    read_subject(entry, place, rule);
    if (!rule.is_regex) check_not_duplicate(index, place, rule);
    rules_.push_back(std::move(rule));
  }

  void read_switch(const Json& entry, const std::string& place, const char* field, bool& out) {
    const auto found = entry.find(field);
    if (found == entry.end() || found->is_null()) return;
    if (!found->is_boolean()) {
      complaints_.push_back(place + ", " + field + ": must be true or false, not " + shown(*found));
      return;
    }
    out = found->get<bool>();
  }

  void read_subject(const Json& entry, const std::string& place, QuotaRule& rule) {
    const auto found = entry.find("subject");
    if (found == entry.end() || found->is_null()) {
      complaints_.push_back(place + ", subject: is missing: name the subjects of the quota");
    } else if (!found->is_string()) {
      complaints_.push_back(place + ", subject: must be a string, not " + shown(*found));
    } else if (found->get_ref<const std::string&>().empty() && !rule.is_regex) {
      complaints_.push_back(place + ", subject: is empty and names no subject");
    } else {
      rule.subject = found->get<std::string>();
      if (!rule.is_regex) return;
      const RE2 regex{rule.subject, RE2::Quiet};
      if (regex.ok()) return;
      complaints_.push_back(place + ", subject: is not a regular expression: " + regex.error());
    }
  }

  void check_not_duplicate(size_t index, const std::string& place, const QuotaRule& rule) {
    if (rule.subject.empty()) return;
    const auto [earlier, is_new] = names_.emplace(rule.subject, index);
    if (is_new) return;
    complaints_.push_back(place + ", subject: is a duplicate of " + place_ + "[" +
                          std::to_string(earlier->second) + "]");
  }

  const std::string place_;
  const QuotaSource source_;
  Complaints& complaints_;
  std::vector<QuotaRule> rules_;
  std::unordered_map<std::string, size_t> names_;
};

// "openai (2026-02)" of ".../openai.json".
std::string profile_title(const std::string& path, const std::string& date) {
  return std::filesystem::path(path).stem().string() + " (" + date + ")";
}

void read_profile_object(const Json& profile, const std::string& place, const std::string& path,
                         QuotaRules& quotas, Complaints& complaints) {
  if (!profile.is_object()) {
    complaints.push_back(place + ": must hold an object with \"subjects\", not " + shown(profile));
    return;
  }
  std::string date;
  bool date_is_text = true;
  std::vector<QuotaRule> rules;
  bool has_subjects = false;
  for (const auto& [field, value] : profile.items()) {
    if (field == "date" && value.is_string()) {
      date = value.get<std::string>();
    } else if (field == "date" && !value.is_null()) {
      date_is_text = false;
      complaints.push_back(place + ", date: must be a string, as \"2026-02\", not " + shown(value));
    } else if (field == "subjects") {
      has_subjects = true;
      rules = SubjectsReader(place + ", subjects", QuotaSource::profile, complaints).read(value);
    } else if (field != "date" && field != "about") {
      complaints.push_back(place + ", " + quoted_excerpt(field) +
                           ": no such field; there are date, about and subjects");
    }
  }
  if (date.empty() && date_is_text) {
    complaints.push_back(place +
                         ", date: is missing: give the date of its figures, as \"2026-02\"");
  }
  if (!has_subjects) complaints.push_back(place + ", subjects: is missing");
  for (QuotaRule& rule : rules) {
    rule.quota.profile = profile_title(path, date);
    quotas.rules.push_back(std::move(rule));
  }
}

void read_profile_text(const ProfileFile& file, const std::string& place, QuotaRules& quotas,
                       Complaints& complaints) {
  if (!file.error.empty()) {
    complaints.push_back(place + ": " + file.complaint);
    return;
  }
  if (file.text.size() > file_bytes_max) {
    complaints.push_back(place + ": " + file.path + " has more than " +
                         std::to_string(file_bytes_max) + " bytes");
    return;
  }
  const text::ParsedJson json = text::parse_json(file.text);
  if (json.complaint.empty()) {
    read_profile_object(json.value, place, file.path, quotas, complaints);
  } else {
    complaints.push_back(place + ": " + file.path + " is " + json.complaint);
  }
}

void read_profiles(const Json& value, const ReadProfile& read_profile, QuotaRules& quotas,
                   std::vector<ProfileFile>& profiles, Complaints& complaints) {
  if (!check_array(value, "quotas.profiles", profiles_max, complaints)) return;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string place = "quotas.profiles[" + std::to_string(i) + "]";
    if (!value[i].is_string() || value[i].get_ref<const std::string&>().empty()) {
      complaints.push_back(place + ": must be a profile's name or path, not " + shown(value[i]));
      continue;
    }
    const std::string name = value[i].get<std::string>();
    profiles.push_back(read_profile(name));
    read_profile_text(profiles.back(), place + " (" + quoted_excerpt(name) + ")", quotas,
                      complaints);
  }
}

void read_unknown(const Json& value, QuotaRules& quotas, Complaints& complaints) {
  if (value == "allow" || value == "deny") {
    quotas.unknown = value == "allow" ? UnknownSubjects::allow : UnknownSubjects::deny;
  } else if (value.is_object()) {
    quotas.unknown = UnknownSubjects::use_quota;
    quotas.unknown_quota = read_quota(value, "quotas.unknown_subjects", {}, complaints);
  } else {
    complaints.push_back(
        "quotas.unknown_subjects: must be allow, deny, or a quota as an object with \"limits\", "
        "not " +
        shown(value));
  }
}

template <typename Integer>
void read_number(const NumberField& field, const Json& value, Integer& out,
                 Complaints& complaints) {
  if (const auto number = text::whole_number(value, field)) {
    out = static_cast<Integer>(*number);
    return;
  }
  complaints.push_back("quotas." + std::string{field.name} + ": " +
                       text::whole_number_complaint(value, field));
}

// "anthropic, gemini and openai": the profiles of a folder.
std::string listed_profiles(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".json") names.push_back(at->path().stem());
  }
  std::ranges::sort(names);
  return text::joined_list(std::vector<std::string_view>{names.begin(), names.end()}, "and");
}

std::string unknown_profile(const std::string& folder, const std::string& why) {
  const std::string there = listed_profiles(folder);
  return "cannot be read (" + why + "); " +
         (there.empty() ? "there are none in " + folder + " (--profiles sets the folder)"
                        : "in " + folder + " there are " + there) +
         "; a file is named by a path with a slash, such as ./mine.json";
}

}  // namespace

ProfileFile no_profile(const std::string& name) {
  const std::string why = "there are no profiles here";
  return {.path = name, .text = "", .error = why, .complaint = why};
}

ReadProfile read_profiles_in(std::string folder, const std::string& config_file) {
  const std::filesystem::path beside = std::filesystem::path(config_file).parent_path();
  return [folder = std::move(folder), beside](const std::string& name) -> ProfileFile {
    const bool is_path = name.find('/') != name.npos;
    ProfileFile file;
    file.path = is_path ? beside / name : std::filesystem::path(folder) / (name + ".json");
    TextFile read = read_text_file(file.path);
    file.text = std::move(read.text);
    file.error = std::move(read.error);
    if (file.error.empty()) return file;
    file.text.clear();
    file.complaint = is_path ? file.path + " cannot be read: " + file.error
                             : unknown_profile(folder, file.error);
    return file;
  };
}

QuotaRules read_quotas(const Json& value, const ReadProfile& read_profile,
                       std::vector<ProfileFile>& profiles, Complaints& complaints) {
  QuotaRules quotas;
  if (!value.is_object()) {
    complaints.push_back("quotas: must be an object, not " + shown(value));
    return quotas;
  }
  QuotaRules of_profiles;
  for (const auto& [field, of] : value.items()) {
    if (of.is_null()) continue;
    if (field == "profiles") {
      read_profiles(of, read_profile, of_profiles, profiles, complaints);
    } else if (field == "unknown_subjects") {
      read_unknown(of, quotas, complaints);
    } else if (field == "subjects") {
      quotas.rules = SubjectsReader("quotas.subjects", QuotaSource::file, complaints).read(of);
    } else if (field == default_lifetime_field.name) {
      read_number(default_lifetime_field, of, quotas.lifetime_ms, complaints);
    } else if (field == default_output_field.name) {
      read_number(default_output_field, of, quotas.output_tokens, complaints);
    } else {
      complaints.push_back("quotas, " + quoted_excerpt(field) +
                           ": no such field; there are profiles, unknown_subjects, subjects, "
                           "default_lifetime_ms and default_output_tokens");
    }
  }
  quotas.rules.insert(quotas.rules.end(), std::move_iterator(of_profiles.rules.begin()),
                      std::move_iterator(of_profiles.rules.end()));
  return quotas;
}

std::string subject_text(const QuotaRule& rule) {
  Json entry{{"subject", rule.subject}};
  if (rule.is_regex) entry["subject_is_regex"] = true;
  if (rule.is_prefix) entry["subject_is_prefix"] = true;
  entry.update(quota_json(rule.quota));
  return text::one_line(entry);
}

}  // namespace sluice::policy
