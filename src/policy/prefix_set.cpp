#include "policy/prefix_set.hpp"

namespace sluice::policy {

void PrefixSet::add(std::string_view prefix, int number) {
  numbers_.insert_or_assign(prefix, number);
  lengths_.insert(prefix.size());
}

std::optional<NameMatch> PrefixSet::find_longest(std::string_view name) const {
  for (auto length = lengths_.lower_bound(name.size()); length != lengths_.end(); ++length) {
    const bool ends_here =
        *length == name.size() || prefix_separators.find(name[*length]) != prefix_separators.npos;
    if (!ends_here) continue;
    const auto found = numbers_.find(name.substr(0, *length));
    if (found != numbers_.end()) return NameMatch{found->second, *length};
  }
  return std::nullopt;
}

}  // namespace sluice::policy
