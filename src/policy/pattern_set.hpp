// Regular expressions that are matched all at once, and which of them match.
// Shape:  one RE2 set. A set that runs out of memory over a text does not count as "no match": the
//         patterns are then tried one by one.
// Errors: add() and compile() tell what is wrong; a set that could not be compiled must not be
//         asked.
// Lives:  one thread, for matching fills caches behind a lock.
// Source: RE2's set.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::policy {

class PatternSet {
 public:
  PatternSet();
  ~PatternSet();
  PatternSet(const PatternSet&) = delete;
  PatternSet& operator=(const PatternSet&) = delete;

  // A match of it is told as `number`. Empty: it is good.
  std::string add(const std::string& pattern, int number);
  // After the last one. Empty: they are good, all together.
  std::string compile();

  bool empty() const noexcept { return numbers_.empty(); }

  // Appends the numbers of those that match anywhere in the text, in no order.
  void match(std::string_view text, std::vector<int>& found);
  // The same, pattern by pattern: what match() falls back to.
  void match_one_by_one(std::string_view text, std::vector<int>& found);

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;  // none without patterns
  std::vector<std::string> patterns_;
  std::vector<int> numbers_;
  std::vector<int> set_matches_;
};

}  // namespace sluice::policy
