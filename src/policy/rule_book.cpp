#include "policy/rule_book.hpp"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <stdexcept>

namespace sluice::policy {
namespace {

constexpr int64_t set_bytes_max = 16 << 20;  // of one core: the patterns, and their work

RE2::Options options() {
  RE2::Options options{RE2::Quiet};
  options.set_max_mem(set_bytes_max);
  return options;
}

}  // namespace

struct RuleBook::Patterns {
  RE2::Set set{options(), RE2::UNANCHORED};
  std::vector<int> rules;                     // of the set's patterns
  std::vector<std::unique_ptr<RE2>> singles;  // compiled when the set fails for the first time
};

RuleBook::RuleBook(const limiter::Policy& standard, std::vector<Rule> rules)
    : standard_(standard), rules_(std::move(rules)) {
  for (size_t index = 0; index < rules_.size(); ++index) {
    const Rule& rule = rules_[index];
    if (!rule.is_regex) {
      by_key_[rule.pattern].push_back(static_cast<int>(index));
      continue;
    }
    if (!patterns_) patterns_ = std::make_unique<Patterns>();
    std::string error;
    if (patterns_->set.Add(rule.pattern, &error) < 0) {
      throw std::runtime_error("keys[" + std::to_string(index) +
                               "], key_pattern: is not a regular expression: " + error);
    }
    patterns_->rules.push_back(static_cast<int>(index));
  }
  if (patterns_ && !patterns_->set.Compile()) {
    throw std::runtime_error("keys: the regular expressions together take more than " +
                             std::to_string(set_bytes_max >> 20) +
                             " MiB: fewer or simpler ones, please");
  }
  matches_.reserve(rules_.size());
  set_matches_.reserve(patterns_ ? patterns_->rules.size() : 0);
}

RuleBook::~RuleBook() = default;

limiter::Policy RuleBook::apply_matches(std::string_view key) {
  limiter::Policy policy = standard_;
  for (const int index : matches(key)) rules_[static_cast<size_t>(index)].apply_to(policy);
  return policy;
}

const std::vector<int>& RuleBook::matches(std::string_view key) {
  matches_.clear();
  if (patterns_) add_regexes_by_set(key);
  add_literals(key);
  return matches_;
}

const std::vector<int>& RuleBook::matches_one_by_one(std::string_view key) {
  matches_.clear();
  if (patterns_) add_regexes_one_by_one(key);
  add_literals(key);
  return matches_;
}

void RuleBook::add_regexes_by_set(std::string_view key) {
  RE2::Set::ErrorInfo error{};
  if (patterns_->set.Match({key.data(), key.size()}, &set_matches_, &error)) {
    for (const int found : set_matches_) {
      matches_.push_back(patterns_->rules[static_cast<size_t>(found)]);
    }
  } else if (error.kind != RE2::Set::kNoError) {
    add_regexes_one_by_one(key);
  }
}

void RuleBook::add_regexes_one_by_one(std::string_view key) {
  if (patterns_->singles.empty()) {
    for (const int index : patterns_->rules) {
      const std::string& pattern = rules_[static_cast<size_t>(index)].pattern;
      patterns_->singles.push_back(std::make_unique<RE2>(pattern, RE2::Quiet));
    }
  }
  const re2::StringPiece text{key.data(), key.size()};
  for (size_t i = 0; i < patterns_->singles.size(); ++i) {
    if (RE2::PartialMatch(text, *patterns_->singles[i])) matches_.push_back(patterns_->rules[i]);
  }
}

void RuleBook::add_literals(std::string_view key) {
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    matches_.insert(matches_.end(), found->second.begin(), found->second.end());
  }
  std::ranges::sort(matches_);
}

}  // namespace sluice::policy
