// A configuration file is either good, with rules and quotas that make a book, or its faults are
// reported, whatever its bytes are. Behind the text, each after a zero byte: a key (and subject) to
// look up in the book, and the text of every profile that the file names. The key is also matched
// with the patterns one by one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "policy/pattern_set.hpp"
#include "policy/quota_text.hpp"
#include "policy/rule_book.hpp"
#include "policy/rule_file.hpp"
#include "text/json.hpp"

namespace {

using namespace sluice;

// Up to the next zero byte, which is taken off with it.
std::string_view take_part(std::string_view& rest) {
  const size_t bytes = rest.find('\0');
  const std::string_view part = rest.substr(0, bytes);
  rest = bytes == std::string_view::npos ? std::string_view{} : rest.substr(bytes + 1);
  return part;
}

void check_rule(const policy::Rule& rule) {
  ASSERT(!rule.max_requests || (*rule.max_requests >= 1));
  ASSERT(!rule.max_requests || *rule.max_requests <= limits::permits_max);
  ASSERT(!rule.window_ms || *rule.window_ms >= limits::window_ms_min);
  ASSERT(!rule.window_ms || *rule.window_ms <= limits::window_ms_max);
}

// All patterns at once find the same as one by one.
void check_patterns(const std::vector<policy::Rule>& rules, std::string_view key) {
  policy::PatternSet patterns;
  for (size_t i = 0; i < rules.size(); ++i) {
    if (!rules[i].is_regex) continue;
    ASSERT(patterns.add(rules[i].pattern, static_cast<int>(i)).empty());
  }
  ASSERT(patterns.compile().empty());
  std::vector<int> by_set;
  std::vector<int> one_by_one;
  patterns.match(key, by_set);
  patterns.match_one_by_one(key, one_by_one);
  std::ranges::sort(by_set);
  ASSERT(by_set == one_by_one);
}

// A quota that was read is good, and is the same when it is written and read again.
void check_quota(api::Quota quota) {
  const api::Quota before = quota;
  ASSERT(policy::check_quota(quota).empty());
  ASSERT(quota == before);
  quota.profile.clear();
  const policy::ParsedQuota again = policy::parse_quota(text::one_line(policy::quota_json(quota)));
  ASSERT(again.complaints.empty());
  ASSERT(again.quota == quota);
}

void check_quotas(policy::QuotaBook& book, std::string_view subject) {
  const policy::QuotaRules& rules = book.rules();
  ASSERT(rules.lifetime_ms >= limits::lifetime_ms_min);
  ASSERT(rules.lifetime_ms <= limits::lifetime_ms_max);
  ASSERT(rules.output_tokens <= limits::amount_max);
  for (const policy::QuotaRule& rule : rules.rules) check_quota(rule.quota);
  check_quota(rules.unknown_quota);
  const policy::SubjectQuota found = book.quota_of(subject);
  ASSERT((found.quota == nullptr) == (found.source == api::QuotaSource::none));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest{reinterpret_cast<const char*>(data), size};
  const std::string_view text = take_part(rest);
  const std::string_view key = take_part(rest);
  const std::string profile{take_part(rest)};
  const auto read_profile = [&profile](const std::string& name) {
    return policy::ProfileFile{.path = name, .text = profile};
  };
  policy::ParsedRules parsed = policy::parse_rules(text, read_profile);
  ASSERT(parsed.complaints.empty() || parsed.rules.empty());
  std::ranges::for_each(parsed.rules, check_rule);
  if (!parsed.complaints.empty()) return 0;
  policy::RuleBook book{limiter::Policy{}, std::move(parsed.rules), std::move(parsed.quotas)};
  check_patterns(book.rules(), key);
  const limiter::Policy policy = book.policy_of(key);
  ASSERT(policy.max_requests >= 1 && policy.window_ms >= limits::window_ms_min);
  check_quotas(book.quotas(), key);
  return 0;
}
