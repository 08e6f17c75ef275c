#include "policy/pattern_set.hpp"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>

namespace sluice::policy {
namespace {

constexpr int64_t set_bytes_max = 16 << 20;  // per shard, for the patterns and their matching

RE2::Options options() {
  RE2::Options options{RE2::Quiet};
  options.set_max_mem(set_bytes_max);
  return options;
}

}  // namespace

struct PatternSet::Compiled {
  RE2::Set set{options(), RE2::UNANCHORED};
  std::vector<std::unique_ptr<RE2>> singles;  // each compiled when it is needed

  const RE2& single(size_t place, const std::vector<std::string>& patterns) {
    singles.resize(patterns.size());
    if (!singles[place]) {
      RE2::Options longest{RE2::Quiet};
      longest.set_longest_match(true);
      singles[place] = std::make_unique<RE2>(patterns[place], longest);
    }
    return *singles[place];
  }
};

PatternSet::PatternSet() = default;
PatternSet::~PatternSet() = default;

std::string PatternSet::add(const std::string& pattern, int number) {
  if (!compiled_) compiled_ = std::make_unique<Compiled>();
  std::string error;
  if (compiled_->set.Add(pattern, &error) < 0) return "is not a regular expression: " + error;
  patterns_.push_back(pattern);
  numbers_.push_back(number);
  return {};
}

std::string PatternSet::compile() {
  set_matches_.reserve(numbers_.size());
  if (!compiled_ || compiled_->set.Compile()) return {};
  return "the regular expressions together take more than " + std::to_string(set_bytes_max >> 20) +
         " MiB: use fewer or simpler ones";
}

void PatternSet::match(std::string_view text, std::vector<int>& found) {
  if (empty()) return;
  RE2::Set::ErrorInfo error{};
  if (compiled_->set.Match({text.data(), text.size()}, &set_matches_, &error)) {
    for (const int index : set_matches_) found.push_back(numbers_[static_cast<size_t>(index)]);
  } else if (error.kind != RE2::Set::kNoError) {
    match_one_by_one(text, found);
  }
}

void PatternSet::match_one_by_one(std::string_view text, std::vector<int>& found) {
  const re2::StringPiece piece{text.data(), text.size()};
  for (size_t place = 0; place < patterns_.size(); ++place) {
    if (RE2::PartialMatch(piece, compiled_->single(place, patterns_)))
      found.push_back(numbers_[place]);
  }
}

size_t PatternSet::match_bytes(std::string_view text, int number) {
  const auto place = static_cast<size_t>(std::ranges::find(numbers_, number) - numbers_.begin());
  const re2::StringPiece piece{text.data(), text.size()};
  re2::StringPiece matched;
  const RE2& single = compiled_->single(place, patterns_);
  return single.Match(piece, 0, piece.size(), RE2::UNANCHORED, &matched, 1) ? matched.size() : 0;
}

}  // namespace sluice::policy
