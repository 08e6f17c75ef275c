// Finds the longest of many prefixes of a name. A prefix matches the name that is the same, and
// names that go on with a separator behind it: "gpt-4o" matches "gpt-4o-2024-08-06", and not
// "gpt-4omni" or "gpt-4o.5". One that ends with a separator itself, as "acme-", matches all names
// that begin so.
// Shape:  prefixes by hash; only lengths that some prefix has are tried.
// Errors: none.
// Lives:  prefixes are views: their texts outlive the set.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

namespace sluice::policy {

// Behind a model's name they begin a date, a version or a variant.
inline constexpr std::string_view prefix_separators = "-:@/";

// How much of a name an entry matches.
struct NameMatch {
  int number = -1;  // of the entry; -1: none matches
  size_t bytes = 0;
};

class PrefixSet {
 public:
  // Of the same prefix twice the last one counts.
  void add(std::string_view prefix, int number);
  std::optional<NameMatch> find_longest(std::string_view name) const;

 private:
  std::unordered_map<std::string_view, int> numbers_;
  std::set<size_t, std::greater<>> lengths_;  // longest first
};

}  // namespace sluice::policy
