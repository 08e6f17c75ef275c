// Matches a text against many regular expressions at once and returns those that match.
// Shape:  one RE2 set. When the set runs out of memory over a text, the patterns are tried one by
//         one: that is not "no match".
// Errors: add() and compile() return the fault as text; match() must not be called on a set that
//         failed to compile.
// Lives:  one thread, because matching fills caches behind a lock.
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

  // match() reports the pattern as `number`. Returns the fault; empty: the pattern is valid.
  std::string add(const std::string& pattern, int number);
  // Call it after the last add(). Returns the fault; empty: all patterns together are good.
  std::string compile();

  bool empty() const noexcept { return numbers_.empty(); }

  // Appends the numbers of those that match anywhere in the text, in no order.
  void match(std::string_view text, std::vector<int>& found);
  // How long the longest match of the leftmost ones is, of the pattern with this number.
  size_t match_bytes(std::string_view text, int number);
  // The same as match(), pattern by pattern: what it falls back to.
  void match_one_by_one(std::string_view text, std::vector<int>& found);

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;  // none without patterns
  std::vector<std::string> patterns_;
  std::vector<int> numbers_;
  std::vector<int> set_matches_;
};

}  // namespace sluice::policy
