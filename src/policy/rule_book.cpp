#include "policy/rule_book.hpp"

#include <algorithm>
#include <stdexcept>

namespace sluice::policy {

RuleBook::RuleBook(const limiter::Policy& default_policy, std::vector<Rule> rules,
                   QuotaRules quotas)
    : default_(default_policy), rules_(std::move(rules)), quotas_(std::move(quotas)) {
  for (size_t index = 0; index < rules_.size(); ++index) {
    const Rule& rule = rules_[index];
    if (!rule.is_regex) {
      by_key_[rule.pattern].push_back(static_cast<int>(index));
      continue;
    }
    const std::string error = patterns_.add(rule.pattern, static_cast<int>(index));
    if (!error.empty()) {
      throw std::runtime_error("keys[" + std::to_string(index) + "], key_pattern: " + error);
    }
  }
  if (const std::string error = patterns_.compile(); !error.empty()) {
    throw std::runtime_error("keys: " + error);
  }
  matches_.reserve(rules_.size());
}

limiter::Policy RuleBook::apply_matches(std::string_view key) {
  limiter::Policy policy = default_;
  for (const int index : matches(key)) rules_[static_cast<size_t>(index)].apply_to(policy);
  return policy;
}

const std::vector<int>& RuleBook::matches(std::string_view key) {
  matches_.clear();
  patterns_.match(key, matches_);
  add_literals(key);
  return matches_;
}

void RuleBook::add_literals(std::string_view key) {
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    matches_.insert(matches_.end(), found->second.begin(), found->second.end());
  }
  std::ranges::sort(matches_);
}

}  // namespace sluice::policy
