// Goal: a valid configuration file becomes its rules; of an invalid one all faults are reported, by
//       entry and field.
// Method: texts by example, the spelling of gocc's files among them.
#include "policy/rule_file.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/limits.hpp"

namespace sluice::policy {
namespace {

using Complaints = std::vector<std::string>;

std::vector<Rule> rules_of(std::string_view text) {
  const ParsedRules parsed = parse_rules(text);
  EXPECT_EQ(parsed.complaints, Complaints{}) << text;
  return parsed.rules;
}

Complaints complaints_about_rules(std::string_view text) {
  const ParsedRules parsed = parse_rules(text);
  EXPECT_TRUE(parsed.rules.empty()) << "a bad file has no rules";
  return parsed.complaints;
}

// The complaint about an entry with one bad field, without the entry's name.
std::string complaint_about_field(const std::string& field) {
  const Complaints complaints = complaints_about_rules(
      R"({"keys": [{"key_pattern": "a"}, {"key_pattern": "k", )" + field + "}]}");
  EXPECT_EQ(complaints.size(), 1U) << field;
  const std::string entry = R"(keys[1] ("k"), )";
  if (complaints.empty() || !complaints[0].starts_with(entry)) return "no complaint of keys[1]";
  return complaints[0].substr(entry.size());
}

TEST(RuleFile, reads_entry_text_back_as_the_same_rule) {
  const Rule rules[] = {
      {.pattern = "k"},
      {.pattern = "a\"b\\", .is_regex = false, .max_requests = 5},
      {.pattern = "^a+$", .is_regex = true, .max_requests_in_queue = 7, .window_ms = 60'000},
      {.pattern = "none", .max_requests = 1, .max_requests_in_queue = 0}};
  for (const Rule& rule : rules) {
    EXPECT_EQ(rules_of("{\"keys\": [" + entry_text(rule) + "]}"), std::vector{rule});
  }
  EXPECT_EQ(entry_text(rules[2]),
            R"({"key_pattern":"^a+$","key_pattern_is_regex":true,"max_requests_in_queue":7,)"
            R"("window_millis":60000})");
}

TEST(RuleFile, complains_of_names_that_no_client_may_use) {
  const std::string fits(8, 'x');
  const std::string text = R"({"keys": [{"key_pattern": ")" + fits + R"("}, {"key_pattern": ")" +
                           fits + R"(y"}, {"key_pattern": ".{1,99}abcdef", )" +
                           R"("key_pattern_is_regex": true}], "quotas": {"subjects": )" +
                           R"([{"subject": "long enough", "limits": []}]}})";
  EXPECT_EQ(parse_rules(text, no_profile, 11).complaints, Complaints{});
  EXPECT_EQ(
      parse_rules(text, no_profile, 8).complaints,
      (Complaints{"keys[1] (\"xxxxxxxxy\"): has 9 bytes, and the server takes 8 at most: give a "
                  "shorter name, or raise --max-key-bytes",
                  "quotas.subjects[0] (\"long enough\"): has 11 bytes, and the server takes 8 at "
                  "most: give a shorter name, or raise --max-key-bytes"}));
}

TEST(RuleFile, reads_every_field) {
  const auto rules = rules_of(R"({"keys": [
    {"key_pattern": "user 1", "max_requests_per_window": 7, "max_requests_in_queue": 8,
     "window_millis": 86400000},
    {"key_pattern": "^premium-", "key_pattern_is_regex": true, "can_queue": false}]})");
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0], (Rule{.pattern = "user 1",
                            .is_regex = false,
                            .max_requests = 7,
                            .max_requests_in_queue = 8,
                            .window_ms = 86'400'000}));
  EXPECT_EQ(rules[1], (Rule{.pattern = "^premium-",
                            .is_regex = true,
                            .max_requests = std::nullopt,
                            .max_requests_in_queue = 0,
                            .window_ms = std::nullopt}));
}

TEST(RuleFile, refuses_an_empty_text) {
  for (const char* text : {"", " \n\t\r\n"}) {
    EXPECT_EQ(complaints_about_rules(text),
              Complaints{R"(is empty: a file without rules is {"keys": []})"});
  }
}

TEST(RuleFile, accepts_a_file_without_rules) {
  for (const char* text : {"{}", R"({"keys":[]})", R"({"keys":null})", " {\n} \n"}) {
    EXPECT_TRUE(rules_of(text).empty()) << text;
  }
}

TEST(RuleFile, takes_zero_null_and_absent_as_not_set) {
  const auto rules = rules_of(R"({"keys": [
    {"key_pattern": "k", "max_requests_per_window": 0, "max_requests_in_queue": 0,
     "window_millis": 0, "can_queue": true},
    {"key_pattern": "k", "key_pattern_is_regex": null, "max_requests_per_window": null,
     "max_requests_in_queue": null, "window_millis": null, "can_queue": null},
    {"key_pattern": "k"}]})");
  for (const Rule& rule : rules) EXPECT_EQ(rule, Rule{.pattern = "k"});
  EXPECT_EQ(rules.size(), 3U);
}

TEST(RuleFile, matches_names_in_any_case_and_uses_the_last_of_two) {
  const auto rules = rules_of(R"({"KEYS": [{"key_pattern": "lost"}], "Keys": [
    {"Key_Pattern": "k", "WINDOW_MILLIS": 20, "window_millis": 30}]})");
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(rules[0].pattern, "k");
  EXPECT_EQ(rules[0].window_ms, 30);
}

TEST(RuleFile, accepts_numbers_at_their_bounds) {
  const auto rules = rules_of(R"({"keys": [
    {"key_pattern": "k", "max_requests_per_window": 1, "max_requests_in_queue": 1,
     "window_millis": 10},
    {"key_pattern": "k", "max_requests_per_window": 1000000000,
     "max_requests_in_queue": 1000000000, "window_millis": 31536000000}]})");
  EXPECT_EQ(rules[0].window_ms, limits::window_ms_min);
  EXPECT_EQ(rules[1].window_ms, limits::window_ms_max);
  EXPECT_EQ(rules[1].max_requests, limits::permits_max);
}

TEST(RuleFile, refuses_numbers_out_of_bounds_or_of_another_type) {
  const std::string wants = "must be a whole number from ";
  for (const char* bad : {"-1", "1000000001", "1.5", "\"10\"", "true", "[]", "{}", "1e3",
                          "18446744073709551615", "99999999999999999999"}) {
    EXPECT_TRUE(complaint_about_field("\"max_requests_per_window\": " + std::string(bad))
                    .starts_with("max_requests_per_window: " + wants + "1 to 1000000000"))
        << bad;
    EXPECT_TRUE(complaint_about_field("\"max_requests_in_queue\": " + std::string(bad))
                    .starts_with("max_requests_in_queue: " + wants + "1 to 1000000000"))
        << bad;
  }
  for (const char* bad : {"9", "-9", "31536000001", "1.5", "\"1s\""}) {
    EXPECT_TRUE(complaint_about_field("\"window_millis\": " + std::string(bad))
                    .starts_with("window_millis: " + wants + "10 to 31536000000"))
        << bad;
  }
}

TEST(RuleFile, refuses_switches_and_patterns_of_another_type) {
  EXPECT_EQ(complaint_about_field(R"("key_pattern_is_regex": "yes")"),
            R"(key_pattern_is_regex: must be true or false, not "yes")");
  EXPECT_EQ(complaint_about_field(R"("can_queue": 0)"), "can_queue: must be true or false, not 0");
  EXPECT_EQ(complaints_about_rules(R"({"keys": [{"key_pattern": 5}]})"),
            Complaints{"keys[0], key_pattern: must be a string, not 5"});
}

TEST(RuleFile, refuses_unknown_fields) {
  EXPECT_TRUE(complaint_about_field(R"("max_requests": 5)")
                  .starts_with(R"("max_requests": no such field)"));
  EXPECT_EQ(complaints_about_rules(R"({"key": []})"),
            Complaints{R"("key": no such field; there are "keys" and "quotas")"});
}

TEST(RuleFile, refuses_patterns_that_are_missing_empty_or_no_regular_expression) {
  EXPECT_EQ(complaints_about_rules(R"({"keys": [{}, {"key_pattern": ""}, {"key_pattern": null},
              {"key_pattern": "a(b", "key_pattern_is_regex": true}]})"),
            (Complaints{"keys[0], key_pattern: is missing: name the keys of the entry",
                        R"(keys[1] (""), key_pattern: is empty and matches no key; every key is )"
                        R"(".*" with "key_pattern_is_regex": true)",
                        "keys[2], key_pattern: is missing: name the keys of the entry",
                        R"(keys[3] ("a(b"), key_pattern: is not a regular expression: )"
                        "missing ): a(b"}));
  // An empty regular expression matches every key.
  EXPECT_EQ(rules_of(R"({"keys": [{"key_pattern": "", "key_pattern_is_regex": true}]})").size(),
            1U);
}

TEST(RuleFile, refuses_a_length_for_a_queue_that_is_off) {
  EXPECT_TRUE(complaint_about_field(R"("can_queue": false, "max_requests_in_queue": 5)")
                  .starts_with("can_queue: is false while"));
}

TEST(RuleFile, reports_all_complaints_at_once) {
  EXPECT_EQ(complaints_about_rules(R"({"other": 1, "keys": [7, {"key_pattern": "k", "x": 1,
              "window_millis": 5}]})")
                .size(),
            4U);
  std::string many = R"({"keys": [)";
  for (int i = 0; i < 500; ++i) many += "{},";
  many.back() = ']';
  const Complaints complaints = complaints_about_rules(many + "}");
  ASSERT_EQ(complaints.size(), 101U);
  EXPECT_EQ(complaints.back(), "and 400 more");
}

TEST(RuleFile, refuses_a_nul_byte) {
  const Complaints complaints = complaints_about_rules(std::string("{\"keys\": []}\0}", 14));
  ASSERT_EQ(complaints.size(), 1U);
  EXPECT_EQ(complaints[0], "not JSON: there is a NUL byte");
}

TEST(RuleFile, reports_where_a_text_is_not_json) {
  EXPECT_TRUE(complaints_about_rules("{\"keys\": [\n  {\"key_pattern\": }]}")[0].starts_with(
      "not JSON, line 2, column 19: "));
  for (const char* text :
       {"{", "[]", "null", "5", "{} {}", "{'keys': []}", "\xff", "{\"a\": 1e999}"}) {
    EXPECT_EQ(complaints_about_rules(text).size(), 1U) << text;
  }
}

TEST(RuleFile, takes_as_many_entries_and_bytes_as_are_allowed) {
  std::string text = R"({"keys": [)";
  for (size_t i = 0; i < rules_max; ++i) {
    text += R"({"key_pattern": "k)" + std::to_string(i) + R"("},)";
  }
  text.back() = ']';
  text += "}";
  text.append(file_bytes_max - text.size(), ' ');
  const ParsedRules parsed = parse_rules(text);
  EXPECT_EQ(parsed.complaints, Complaints{});
  EXPECT_EQ(parsed.rules.size(), rules_max);
}

TEST(RuleFile, refuses_texts_beyond_its_bounds) {
  EXPECT_EQ(complaints_about_rules(std::string(file_bytes_max + 1, ' ')).size(), 1U);
  EXPECT_EQ(complaints_about_rules(std::string(1'000'000, '[')).size(), 1U);
  const std::string nested = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_EQ(complaint_about_field("\"window_millis\": " + nested).substr(0, 13), "window_millis");
  std::string many = R"({"keys": [)";
  for (size_t i = 0; i <= rules_max; ++i) many += "{},";
  many.back() = ']';
  EXPECT_EQ(complaints_about_rules(many + "}").size(), 1U);
}

}  // namespace
}  // namespace sluice::policy
