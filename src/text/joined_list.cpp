#include "text/joined_list.hpp"

#include <cstddef>

namespace sluice::text {

std::string joined_list(std::span<const std::string_view> words, std::string_view last) {
  std::string list;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0 && i + 1 < words.size()) list += ", ";
    if (i > 0 && i + 1 == words.size()) list.append(" ").append(last).append(" ");
    list += words[i];
  }
  return list;
}

}  // namespace sluice::text
