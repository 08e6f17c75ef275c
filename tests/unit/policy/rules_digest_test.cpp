// Goal: two instances have one digest exactly if they limit alike.
// Method: files that say the same in other words, and files that differ in one value each.
#include "policy/rules_digest.hpp"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "policy/rule_file.hpp"

namespace sluice::policy {
namespace {

constexpr limiter::Policy flags{
    .window_ms = 1'000, .max_requests = 100, .max_requests_in_queue = 400};
constexpr int64_t peer_timeout_ms = 2'000;

uint64_t digest_of_flags(const limiter::Policy& policy) {
  return rules_digest(policy, {}, {}, peer_timeout_ms);
}

// There is a profile of any name, and it has these subjects.
ReadProfile profile_with(std::string subjects) {
  return [subjects](const std::string& name) {
    return ProfileFile{.path = name,
                       .text = R"({"date":"2026-02","about":"x","subjects":[)" + subjects + "]}",
                       .error = {},
                       .complaint = {}};
  };
}

const std::string model =
    R"({"subject":"m","limits":[{"name":"rpm","metric":"requests","amount":9,"period_ms":60000}]})";

uint64_t digest_of_file(std::string_view text, const std::string& profile_subjects = model) {
  const ParsedRules parsed = parse_rules(text, profile_with(profile_subjects));
  if (!parsed.complaints.empty()) throw std::runtime_error(parsed.complaints.front());
  return rules_digest(flags, parsed.rules, parsed.quotas, peer_timeout_ms);
}

TEST(RulesDigest, is_the_same_however_the_file_is_written) {
  const uint64_t digest = digest_of_file(
      R"({"keys":[{"key_pattern":"a","max_requests_per_window":5}],"quotas":{"profiles":["one"]}})");
  EXPECT_EQ(digest, digest_of_file(R"({"Keys" : [ {"max_requests_per_window" : 5,
      "key_pattern_is_regex" : false, "key_pattern" : "a"} ],
      "quotas" : {"profiles" : ["other"], "unknown_subjects" : "allow"}})"));
  EXPECT_EQ(digest_of_file("{}"), digest_of_file(R"({"keys":[],"quotas":{"subjects":[]}})"));
}

TEST(RulesDigest, differs_with_every_value) {
  const std::vector<std::string> files{
      "{}",
      R"({"keys":[{"key_pattern":"a","max_requests_per_window":5}]})",
      R"({"keys":[{"key_pattern":"a","max_requests_per_window":6}]})",
      R"({"keys":[{"key_pattern":"b","max_requests_per_window":5}]})",
      R"({"keys":[{"key_pattern":"a","max_requests_in_queue":5}]})",
      R"({"keys":[{"key_pattern":"a","can_queue":false}]})",
      R"({"keys":[{"key_pattern":"a","window_millis":5000}]})",
      R"({"keys":[{"key_pattern":"a","key_pattern_is_regex":true,"window_millis":5000}]})",
      R"({"quotas":{"unknown_subjects":"deny"}})",
      R"({"quotas":{"default_lifetime_ms":5000}})",
      R"({"quotas":{"default_output_tokens":5}})",
      R"({"quotas":{"unknown_subjects":{"limits":[]}}})",
      R"({"quotas":{"subjects":[)" + model + "]}}",
      R"({"quotas":{"profiles":["one"]}})",
      R"({"quotas":{"unknown_subjects":)" + model.substr(0, 1) + model.substr(15) + "}}",
  };
  std::set<uint64_t> digests;
  for (const std::string& file : files) digests.insert(digest_of_file(file));
  EXPECT_EQ(digests.size(), files.size());
}

TEST(RulesDigest, differs_with_the_order_of_rules) {
  const std::string a = R"({"key_pattern":"a.*","key_pattern_is_regex":true,"window_millis":5000})";
  const std::string b = R"({"key_pattern":"ab","window_millis":6000})";
  EXPECT_NE(digest_of_file(R"({"keys":[)" + a + "," + b + "]}"),
            digest_of_file(R"({"keys":[)" + b + "," + a + "]}"));
}

TEST(RulesDigest, differs_with_what_a_profile_says) {
  const std::string_view file = R"({"quotas":{"profiles":["one"]}})";
  std::string other = model;
  other.replace(other.find("9"), 1, "8");
  EXPECT_NE(digest_of_file(file), digest_of_file(file, other));
}

TEST(RulesDigest, differs_with_the_flags) {
  limiter::Policy other = flags;
  other.max_requests = 101;
  EXPECT_NE(digest_of_flags(flags), digest_of_flags(other));
  other = flags;
  other.max_requests_in_queue = 0;
  EXPECT_NE(digest_of_flags(flags), digest_of_flags(other));
  other = flags;
  other.window_ms = 2'000;
  EXPECT_NE(digest_of_flags(flags), digest_of_flags(other));
}

// Homes and the nodes of their parts keep these for as many time-outs, each of its own.
TEST(RulesDigest, differs_with_the_time_out_of_peers) {
  EXPECT_NE(digest_of_flags(flags), rules_digest(flags, {}, {}, peer_timeout_ms + 1));
}

}  // namespace
}  // namespace sluice::policy
