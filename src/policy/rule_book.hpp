// Finds the policy of a key: the flags' values, overwritten by every rule that matches, in order.
// Shape:  whole keys are found by hash; all regular expressions are matched at once. The book also
//         has the quotas of subjects, because they are in the same file.
// Errors: the constructor throws std::runtime_error when the patterns together are too large.
// Lives:  one thread; each shard has its own, because matching fills caches behind a lock.
// Source: gocc, "Merge".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "limiter/policy.hpp"
#include "policy/pattern_set.hpp"
#include "policy/quota_book.hpp"
#include "policy/rule.hpp"

namespace sluice::policy {

class RuleBook {
 public:
  explicit RuleBook(const limiter::Policy& default_policy, std::vector<Rule> rules = {},
                    QuotaRules quotas = {});
  RuleBook(const RuleBook&) = delete;
  RuleBook& operator=(const RuleBook&) = delete;

  const limiter::Policy& default_policy() const noexcept { return default_; }
  const std::vector<Rule>& rules() const noexcept { return rules_; }
  bool empty() const noexcept { return rules_.empty(); }

  limiter::Policy policy_of(std::string_view key) {
    return rules_.empty() ? default_ : apply_matches(key);
  }

  QuotaBook& quotas() noexcept { return quotas_; }

  // rules_digest(), where other instances compare it; 0: nobody does.
  void set_digest(uint64_t digest) noexcept { digest_ = digest; }
  uint64_t digest() const noexcept { return digest_; }

  // The indexes of the rules that match, ascending. Valid until the next call.
  const std::vector<int>& matches(std::string_view key);

 private:
  limiter::Policy apply_matches(std::string_view key);
  void add_literals(std::string_view key);

  const limiter::Policy default_;
  const std::vector<Rule> rules_;
  std::unordered_map<std::string_view, std::vector<int>> by_key_;
  PatternSet patterns_;
  std::vector<int> matches_;
  QuotaBook quotas_;
  uint64_t digest_ = 0;
};

}  // namespace sluice::policy
