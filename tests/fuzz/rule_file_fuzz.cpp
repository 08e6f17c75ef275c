// A policy file is either good, and then rules that make a book, or its faults are told; whatever
// its bytes are. The bytes behind the text are a key that the book is asked for, both ways.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "policy/rule_book.hpp"
#include "policy/rule_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const std::string_view input{reinterpret_cast<const char*>(data), size};
  const size_t text_bytes = input.find('\0');
  const std::string_view text = input.substr(0, text_bytes);
  const std::string_view key =
      text_bytes == std::string_view::npos ? "key" : input.substr(text_bytes + 1);
  policy::ParsedRules parsed = policy::parse_rules(text);
  ASSERT(parsed.complaints.empty() || parsed.rules.empty());
  for (const policy::Rule& rule : parsed.rules) {
    ASSERT(!rule.max_requests || (*rule.max_requests >= 1));
    ASSERT(!rule.max_requests || *rule.max_requests <= limits::permits_max);
    ASSERT(!rule.window_ms || *rule.window_ms >= limits::window_ms_min);
    ASSERT(!rule.window_ms || *rule.window_ms <= limits::window_ms_max);
  }
  if (!parsed.complaints.empty()) return 0;
  policy::RuleBook book{limiter::Policy{}, std::move(parsed.rules)};
  const std::vector<int> by_set = book.matches(key);
  ASSERT(book.matches_one_by_one(key) == by_set);
  const limiter::Policy policy = book.policy_of(key);
  ASSERT(policy.max_requests >= 1 && policy.window_ms >= limits::window_ms_min);
  return 0;
}
