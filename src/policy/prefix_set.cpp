#include "policy/prefix_set.hpp"

namespace sluice::policy {
namespace {

bool is_separator(char c) noexcept {
  return prefix_separators.find(c) != prefix_separators.npos;
}

// Whether a prefix of this length is the whole name, or ends beside a separator.
bool ends_at(std::string_view name, size_t length) noexcept {
  return length == name.size() || is_separator(name[length]) ||
         (length > 0 && is_separator(name[length - 1]));
}

}  // namespace

void PrefixSet::add(std::string_view prefix, int number) {
  numbers_.insert_or_assign(prefix, number);
  lengths_.insert(prefix.size());
}

std::optional<NameMatch> PrefixSet::find_longest(std::string_view name) const {
  for (auto length = lengths_.lower_bound(name.size()); length != lengths_.end(); ++length) {
    if (!ends_at(name, *length)) continue;
    const auto found = numbers_.find(name.substr(0, *length));
    if (found != numbers_.end()) return NameMatch{found->second, *length};
  }
  return std::nullopt;
}

}  // namespace sluice::policy
