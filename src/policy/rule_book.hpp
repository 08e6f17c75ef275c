// Which policy a key has: the flags' values, overwritten by every rule that matches, in order.
// Shape:  whole keys are found by hash; all regular expressions are matched at once, by one RE2
//         set. A set that runs out of memory over a key does not count as "no match": the patterns
//         are then tried one by one.
// Errors: the constructor throws std::runtime_error when the patterns together are too large.
// Lives:  one thread; each core has its own, for matching fills caches behind a lock.
// Source: gocc, "Merge"; RE2's set.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "limiter/policy.hpp"
#include "policy/rule.hpp"

namespace re2 {
class RE2;
}

namespace sluice::policy {

class RuleBook {
 public:
  explicit RuleBook(const limiter::Policy& standard, std::vector<Rule> rules = {});
  ~RuleBook();
  RuleBook(const RuleBook&) = delete;
  RuleBook& operator=(const RuleBook&) = delete;

  const limiter::Policy& standard() const noexcept { return standard_; }
  const std::vector<Rule>& rules() const noexcept { return rules_; }
  bool empty() const noexcept { return rules_.empty(); }

  limiter::Policy policy_of(std::string_view key) {
    return rules_.empty() ? standard_ : apply_matches(key);
  }

  // The rules that match, by their index, ascending. Until the next call.
  const std::vector<int>& matches(std::string_view key);

  // The same, pattern by pattern: what matches() falls back to.
  const std::vector<int>& matches_one_by_one(std::string_view key);

 private:
  struct Patterns;
  limiter::Policy apply_matches(std::string_view key);
  void add_regexes_by_set(std::string_view key);
  void add_regexes_one_by_one(std::string_view key);
  void add_literals(std::string_view key);

  const limiter::Policy standard_;
  const std::vector<Rule> rules_;
  std::unordered_map<std::string_view, std::vector<int>> by_key_;
  std::unique_ptr<Patterns> patterns_;
  std::vector<int> matches_;
  std::vector<int> set_matches_;
};

}  // namespace sluice::policy
