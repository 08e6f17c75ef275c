// Goal: "quotas" of a configuration file becomes its rules, profiles among them, and its faults are
//       reported by subject and field.
// Method: texts by example, profiles in memory; the profiles that come with the server are compared
//         with the figures that they were made from.
#include "policy/quota_file.hpp"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <map>

#include "base/limits.hpp"
#include "policy/rule_file.hpp"
#include "tests/support/source_folder.hpp"

namespace sluice::policy {
namespace {

using api::LimitKind;
using api::Metric;
using api::QuotaSource;
using Complaints = std::vector<std::string>;
using Texts = std::map<std::string, std::string>;

constexpr const char* limits_text =
    R"("limits": [{"name": "rpm", "metric": "requests", "amount": 5, "period_ms": 60000}])";

api::Quota quota_of_5(std::string profile = "") {
  return {.limits = {{.name = "rpm", .metric = Metric::requests, .amount = 5, .period_ms = 60'000}},
          .profile = std::move(profile)};
}

ReadProfile profiles_of(const Texts& texts) {
  return [texts](const std::string& name) -> ProfileFile {
    const auto found = texts.find(name);
    if (found != texts.end()) return {.path = name + ".json", .text = found->second};
    return {.path = name, .text = "", .error = "not found", .complaint = "there is none"};
  };
}

ParsedRules parsed_with(const std::string& fields, const Texts& profiles = {}) {
  return parse_rules("{\"quotas\": {" + fields + "}}", profiles_of(profiles));
}

QuotaRules quotas_of(const std::string& fields, const Texts& profiles = {}) {
  const ParsedRules parsed = parsed_with(fields, profiles);
  EXPECT_EQ(parsed.complaints, Complaints{}) << fields;
  return parsed.quotas;
}

Complaints complaints_about(const std::string& fields, const Texts& profiles = {}) {
  const ParsedRules parsed = parsed_with(fields, profiles);
  EXPECT_EQ(parsed.quotas, QuotaRules{}) << "a bad file has no quotas";
  return parsed.complaints;
}

TEST(QuotaFile, reads_every_field) {
  const QuotaRules quotas = quotas_of(
      R"("unknown_subjects": "deny", "default_lifetime_ms": 5000, "default_output_tokens": 400,
         "subjects": [{"subject": "gpt-4o", "expired": "refund", )" +
      std::string{limits_text} + R"(},
                      {"subject": "^team-", "subject_is_regex": true, "limits": []}])");
  api::Quota first = quota_of_5();
  first.refund_expired = true;
  EXPECT_EQ(quotas, (QuotaRules{.rules = {{.subject = "gpt-4o", .quota = first},
                                          {.subject = "^team-", .is_regex = true, .quota = {}}},
                                .unknown = UnknownSubjects::deny,
                                .unknown_quota = {},
                                .lifetime_ms = 5'000,
                                .output_tokens = 400}));
  EXPECT_EQ(quotas.rules[0].source, QuotaSource::file);
}

TEST(QuotaFile, uses_defaults_for_absent_fields) {
  for (const char* text : {"", R"("profiles": [], "subjects": [], "unknown_subjects": "allow",
                                  "default_lifetime_ms": 60000, "default_output_tokens": 0)",
                           R"("profiles": null, "subjects": null, "unknown_subjects": null,
                              "default_lifetime_ms": null, "default_output_tokens": null)"}) {
    EXPECT_EQ(quotas_of(text), QuotaRules{}) << text;
  }
  for (const char* text : {R"({"quotas": null})", R"({"quotas": {}, "keys": []})"}) {
    EXPECT_EQ(parse_rules(text).complaints, Complaints{});
  }
}

TEST(QuotaFile, reads_a_quota_for_unknown_subjects) {
  const QuotaRules quotas = quotas_of(R"("unknown_subjects": {)" + std::string{limits_text} + "}");
  EXPECT_EQ(quotas.unknown, UnknownSubjects::use_quota);
  EXPECT_EQ(quotas.unknown_quota, quota_of_5());
  EXPECT_EQ(complaints_about(R"("unknown_subjects": "block")"),
            Complaints{"quotas.unknown_subjects: must be allow, deny, or a quota as an object with "
                       "\"limits\", not \"block\""});
  EXPECT_EQ(complaints_about(R"("unknown_subjects": {"limits": 5})"),
            Complaints{"quotas.unknown_subjects, limits: must be an array, not 5"});
}

TEST(QuotaFile, bounds_the_defaults) {
  EXPECT_EQ(quotas_of(R"("default_lifetime_ms": 10)").lifetime_ms, limits::lifetime_ms_min);
  EXPECT_EQ(quotas_of(R"("default_lifetime_ms": 2592000000)").lifetime_ms, limits::lifetime_ms_max);
  EXPECT_EQ(quotas_of(R"("default_output_tokens": 9223372036854775807)").output_tokens,
            limits::amount_max);
  for (const std::string bad : {"9", "2592000001", "-10", "1.5", "\"10\"", "true"}) {
    EXPECT_EQ(complaints_about(R"("default_lifetime_ms": )" + bad),
              Complaints{"quotas.default_lifetime_ms: must be a whole number from 10 to "
                         "2592000000, not " +
                         bad});
  }
  for (const std::string bad : {"-1", "9223372036854775808", "[]"}) {
    EXPECT_EQ(complaints_about(R"("default_output_tokens": )" + bad).size(), 1U);
  }
}

TEST(QuotaFile, refuses_subjects_that_are_missing_empty_or_no_regular_expression) {
  EXPECT_EQ(
      complaints_about(R"("subjects": [{"limits": []}, {"subject": "", "limits": []},
              {"subject": 7, "limits": []},
              {"subject": "a(b", "subject_is_regex": true, "limits": []},
              {"subject": "c", "subject_is_regex": 1, "limits": []}, 5])"),
      (Complaints{"quotas.subjects[0], subject: is missing: name the subjects of the quota",
                  R"(quotas.subjects[1] (""), subject: is empty and names no subject)",
                  "quotas.subjects[2], subject: must be a string, not 7",
                  R"(quotas.subjects[3] ("a(b"), subject: is not a regular expression: )"
                  "missing ): a(b",
                  R"(quotas.subjects[4] ("c"), subject_is_regex: must be true or false, not 1)",
                  R"(quotas.subjects[5]: must be an object with "limits", not 5)"}));
  // Every subject.
  EXPECT_EQ(quotas_of(R"("subjects": [{"subject": "", "subject_is_regex": true, "limits": []}])")
                .rules.size(),
            1U);
}

TEST(QuotaFile, refuses_duplicate_subjects) {
  EXPECT_EQ(complaints_about(R"("subjects": [{"subject": "a", "limits": []},
              {"subject": "b", "limits": []}, {"subject": "a", "limits": []}])"),
            Complaints{R"(quotas.subjects[2] ("a"), subject: is a duplicate of )"
                       "quotas.subjects[0]"});
  // A pattern may look like a name.
  EXPECT_EQ(quotas_of(R"("subjects": [{"subject": "a", "limits": []},
              {"subject": "a", "subject_is_regex": true, "limits": []}])")
                .rules.size(),
            2U);
}

TEST(QuotaFile, names_the_subject_in_complaints_about_limits) {
  EXPECT_EQ(
      complaints_about(R"("subjects": [{"subject": "m", "x": 1, "limits": [
              {"name": "tpm", "metric": "tokens", "amount": -5, "period_ms": 60000}]}])"),
      (Complaints{R"(quotas.subjects[0] ("m"), "x": no such field; there are subject, )"
                  "subject_is_regex, subject_is_prefix, limits, expired and overtakers",
                  R"(quotas.subjects[0] ("m"), limits[0] ("tpm"), amount: must be a whole )"
                  R"(number from 0 to 9223372036854775807, "unlimited" or "block", not -5)"}));
}

TEST(QuotaFile, refuses_unknown_fields_and_other_types) {
  EXPECT_EQ(complaints_about(R"("subject": [])"),
            Complaints{"quotas, \"subject\": no such field; there are profiles, unknown_subjects, "
                       "subjects, default_lifetime_ms and default_output_tokens"});
  EXPECT_EQ(complaints_about(R"("subjects": {})"),
            Complaints{"quotas.subjects: must be an array, not an object"});
  EXPECT_EQ(parse_rules(R"({"quotas": []})").complaints,
            Complaints{"quotas: must be an object, not an array"});
}

TEST(QuotaFile, takes_as_many_entries_as_are_allowed) {
  std::string subjects = R"("subjects": [)";
  for (size_t i = 0; i < subjects_max; ++i) {
    subjects += R"({"subject": "s)" + std::to_string(i) + R"(", "limits": []},)";
  }
  subjects.back() = ']';
  EXPECT_EQ(quotas_of(subjects).rules.size(), subjects_max);
  std::string names = R"("profiles": [)";
  Texts profiles;
  for (size_t i = 0; i < profiles_max; ++i) {
    names += R"("p)" + std::to_string(i) + R"(",)";
    profiles["p" + std::to_string(i)] =
        R"({"date": "2026-02", )" + (i == 0 ? subjects : R"("subjects": [])") + "}";
  }
  names.back() = ']';
  EXPECT_EQ(quotas_of(names, profiles).rules.size(), subjects_max);
}

TEST(QuotaFile, refuses_too_many_entries) {
  std::string many = R"("subjects": [)";
  for (size_t i = 0; i <= subjects_max; ++i) many += "0,";
  many.back() = ']';
  EXPECT_EQ(complaints_about(many),
            Complaints{"quotas.subjects: has 100001 entries; at most 100000 are allowed"});
  std::string names = R"("profiles": [)";
  for (size_t i = 0; i <= profiles_max; ++i) names += "\"a\",";
  names.back() = ']';
  EXPECT_EQ(complaints_about(names),
            Complaints{"quotas.profiles: has 33 entries; at most 32 are allowed"});
}

TEST(QuotaFile, refuses_patterns_that_are_too_large_together) {
  std::string many = R"("subjects": [)";
  for (int i = 0; i < 200; ++i) {
    many += R"({"subject": "([^x]y){1000}", "subject_is_regex": true, "limits": []},)";
  }
  many.back() = ']';
  const Complaints complaints = complaints_about(many);
  ASSERT_EQ(complaints.size(), 1U);
  EXPECT_TRUE(complaints[0].starts_with("quotas.subjects: the regular expressions together"));
}

TEST(QuotaFile, appends_profiles_with_their_date_to_the_rules_of_the_file) {
  const Texts texts{{"mine", R"({"date": "2026-02", "about": "x", "subjects": [{"subject": "m", )" +
                                 std::string{limits_text} + "}]}"}};
  const QuotaRules quotas =
      quotas_of(R"("profiles": ["mine"], "subjects": [{"subject": "m", "limits": []}])", texts);
  EXPECT_EQ(quotas.rules, (std::vector<QuotaRule>{{.subject = "m", .quota = {}},
                                                  {.subject = "m",
                                                   .is_regex = false,
                                                   .quota = quota_of_5("mine (2026-02)"),
                                                   .source = QuotaSource::profile}}));
  EXPECT_EQ(parsed_with(R"("profiles": ["mine"])", texts).profiles,
            (std::vector<ProfileFile>{{.path = "mine.json", .text = texts.at("mine")}}));
}

TEST(QuotaFile, reports_complaints_about_profiles) {
  const Texts texts{{"text", "{"},
                    {"list", "[]"},
                    {"fields", R"({"dates": 1, "date": 2026})"},
                    {"absent", R"({"date": null})"},
                    {"regex", R"({"date": "d", "subjects": [
                      {"subject": "a(", "subject_is_regex": true, "limits": []},
                      {"subject": "b", "subject_is_regex": true, "subject_is_prefix": true,
                       "limits": []}, {"subject": "c", "subject_is_prefix": 1, "limits": []}]})"}};
  EXPECT_EQ(complaints_about(R"("profiles": [5, "", "none", "list", "fields", "absent", "regex"])",
                             texts),
            (Complaints{
                "quotas.profiles[0]: must be a profile's name or path, not 5",
                "quotas.profiles[1]: must be a profile's name or path, not \"\"",
                R"(quotas.profiles[2] ("none"): there is none)",
                R"(quotas.profiles[3] ("list"): must hold an object with "subjects", not an array)",
                R"(quotas.profiles[4] ("fields"), "dates": no such field; there are date, about )"
                "and subjects",
                R"(quotas.profiles[4] ("fields"), date: must be a string, as "2026-02", not 2026)",
                R"(quotas.profiles[4] ("fields"), subjects: is missing)",
                R"(quotas.profiles[5] ("absent"), date: is missing: give the date of its figures, )"
                R"(as "2026-02")",
                R"(quotas.profiles[5] ("absent"), subjects: is missing)",
                R"(quotas.profiles[6] ("regex"), subjects[0] ("a("), subject: is not a regular )"
                "expression: missing ): a(",
                R"(quotas.profiles[6] ("regex"), subjects[1] ("b"), subject_is_prefix: is true )"
                "beside subject_is_regex: keep one of them",
                R"(quotas.profiles[6] ("regex"), subjects[2] ("c"), subject_is_prefix: must be )"
                "true or false, not 1"}));
  const Complaints syntax = complaints_about(R"("profiles": ["text"])", texts);
  ASSERT_EQ(syntax.size(), 1U);
  EXPECT_TRUE(syntax[0].starts_with(
      R"(quotas.profiles[0] ("text"): text.json is not JSON, line 1, column 2: )"))
      << syntax[0];
  EXPECT_EQ(complaints_about(R"("profiles": "openai")"),
            Complaints{"quotas.profiles: must be an array, not \"openai\""});
}

TEST(QuotaFile, refuses_a_profile_that_is_too_large) {
  EXPECT_EQ(complaints_about(R"("profiles": ["a"])", {{"a", std::string(file_bytes_max + 1, ' ')}}),
            Complaints{R"(quotas.profiles[0] ("a"): a.json has more than 16777216 bytes)"});
}

TEST(QuotaFile, has_no_profiles_where_no_folder_is_given) {
  const ParsedRules parsed = parse_rules(R"({"quotas": {"profiles": ["a"]}})");
  EXPECT_EQ(parsed.complaints,
            Complaints{R"(quotas.profiles[0] ("a"): there are no profiles here)"});
}

TEST(QuotaFile, also_returns_profiles_that_failed) {
  const ParsedRules parsed = parsed_with(R"("profiles": ["none"])");
  EXPECT_EQ(parsed.complaints.size(), 1U);
  ASSERT_EQ(parsed.profiles.size(), 1U);
  EXPECT_EQ(parsed.profiles[0].error, "not found");
}

TEST(QuotaFile, reads_subject_text_back_as_the_same_rule) {
  const std::string text =
      R"({"subject":"^m","subject_is_regex":true,"limits":[{"name":"rpm","metric":"requests",)"
      R"("amount":5,"period_ms":60000,"kind":"sliding"}],"overtakers":2})";
  const QuotaRules quotas = quotas_of("\"subjects\": [" + text + "]");
  ASSERT_EQ(quotas.rules.size(), 1U);
  EXPECT_EQ(subject_text(quotas.rules[0]), text);
}

// ---- The profiles that come with the server -------------------------------------------------

const std::string shipped = test::source_folder() / "packaging" / "profiles";

struct Figures {
  const char* profile;
  const char* model;
  uint64_t rpm;
  uint64_t tpm;
  uint64_t rpd;
};

// go-ratelimit, DefaultProfiles(), "as of Feb 2026"; 0: no limit.
constexpr std::array<Figures, 15> reference{{
    {"gemini", "gemini-3-pro-preview", 150, 1'000'000, 1'000},
    {"gemini", "gemini-3-flash-preview", 150, 1'000'000, 1'000},
    {"gemini", "gemini-2.5-pro", 150, 1'000'000, 1'000},
    {"gemini", "gemini-2.0-flash", 150, 1'000'000, 0},
    {"gemini", "gemini-2.0-flash-lite", 0, 0, 0},
    {"openai", "gpt-4o", 500, 30'000, 0},
    {"openai", "gpt-4o-mini", 500, 200'000, 0},
    {"openai", "gpt-4-turbo", 500, 30'000, 0},
    {"openai", "o1", 500, 30'000, 0},
    {"openai", "o1-mini", 500, 200'000, 0},
    {"openai", "o3-mini", 500, 200'000, 0},
    {"anthropic", "claude-opus-4", 50, 40'000, 0},
    {"anthropic", "claude-sonnet-4", 50, 40'000, 0},
    {"anthropic", "claude-3-5-haiku", 50, 50'000, 0},
    {"anthropic", "claude-haiku-3.5", 50, 50'000, 0},
}};

QuotaRule rule_of(const Figures& of) {
  api::Quota quota{.profile = std::string{of.profile} + " (2026-02)"};
  if (of.rpm > 0) {
    quota.limits.push_back({.name = "rpm",
                            .metric = Metric::requests,
                            .kind = LimitKind::sliding,
                            .amount = of.rpm,
                            .period_ms = 60'000});
  }
  if (of.tpm > 0) {
    quota.limits.push_back({.name = "tpm",
                            .metric = Metric::tokens,
                            .kind = LimitKind::sliding,
                            .amount = of.tpm,
                            .period_ms = 60'000});
  }
  if (of.rpd > 0) {
    quota.limits.push_back({.name = "rpd",
                            .metric = Metric::requests,
                            .kind = LimitKind::anchored_day,
                            .amount = of.rpd,
                            .period_ms = 86'400'000});
  }
  return {.subject = of.model, .is_prefix = true, .quota = quota, .source = QuotaSource::profile};
}

ParsedRules with_files(const std::string& profiles, const std::string& config_file = "x.json") {
  return parse_rules("{\"quotas\": {\"profiles\": [" + profiles + "]}}",
                     read_profiles_in(shipped, config_file));
}

TEST(Profiles, have_the_figures_of_the_reference) {
  const ParsedRules parsed = with_files(R"("gemini", "openai", "anthropic", "local")");
  EXPECT_EQ(parsed.complaints, Complaints{});
  ASSERT_EQ(parsed.quotas.rules.size(), reference.size());
  for (size_t i = 0; i < reference.size(); ++i) {
    EXPECT_EQ(parsed.quotas.rules[i], rule_of(reference[i])) << reference[i].model;
  }
}

TEST(Profiles, lists_those_that_exist_when_one_is_missing) {
  const ParsedRules parsed = with_files(R"("opnai")");
  EXPECT_EQ(parsed.complaints,
            Complaints{R"(quotas.profiles[0] ("opnai"): cannot be read (No such file or )"
                       "directory); in " +
                       shipped +
                       " there are anthropic, gemini, local and openai; a file is named by a path "
                       "with a slash, such as ./mine.json"});
  const ProfileFile nowhere = read_profiles_in("/nowhere", "")("openai");
  EXPECT_EQ(nowhere.error, "No such file or directory");
  EXPECT_NE(nowhere.complaint.find("there are none in /nowhere (--profiles sets the folder)"),
            std::string::npos)
      << nowhere.complaint;
}

TEST(Profiles, reads_paths_relative_to_the_configuration_file) {
  const std::filesystem::path folder = std::filesystem::path(shipped).parent_path();
  const std::string beside = folder / "limits.json";
  EXPECT_EQ(with_files(R"("./profiles/anthropic.json")", beside).quotas.rules.size(), 4U);
  EXPECT_EQ(with_files("\"" + shipped + "/anthropic.json\"").quotas.rules.size(), 4U);
  const ParsedRules parsed = with_files(R"("./anthropic.json")", beside);
  EXPECT_EQ(parsed.complaints,
            Complaints{R"(quotas.profiles[0] ("./anthropic.json"): )" + folder.string() +
                       "/./anthropic.json cannot be read: No such file or directory"});
}

}  // namespace
}  // namespace sluice::policy
