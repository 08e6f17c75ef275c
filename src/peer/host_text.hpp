// Names of hosts as texts that compare: in lower case, and with or without the dot at their end.
#pragma once

#include <string>
#include <string_view>

namespace sluice::peer {

inline std::string in_lower_case(std::string_view text) {
  std::string lower{text};
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// Of "a" and "a.", which is the same name for DNS.
constexpr std::string_view without_last_dot(std::string_view host) noexcept {
  if (host.ends_with('.')) host.remove_suffix(1);
  return host;
}

// "gocc-0" of "gocc-0.gocc.svc"
constexpr std::string_view first_label(std::string_view host) noexcept {
  return host.substr(0, host.find('.'));
}

}  // namespace sluice::peer
