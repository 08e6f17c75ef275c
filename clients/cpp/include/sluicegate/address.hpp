// "HOST:PORT", with brackets around an IPv6 address.
// Errors: std::invalid_argument.
#pragma once

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sluicegate {

struct Address {
  std::string host{};
  uint16_t port = 0;
  bool operator==(const Address&) const = default;
};

inline Address parse_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon != text.npos && colon > 0) {
    std::string_view host = text.substr(0, colon);
    if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    const char* end = text.data() + text.size();
    uint16_t port = 0;
    const auto [stop, fault] = std::from_chars(text.data() + colon + 1, end, port);
    if (fault == std::errc{} && stop == end && port > 0 && !host.empty()) {
      return {std::string{host}, port};
    }
  }
  throw std::invalid_argument("'" + std::string{text} + "' is not HOST:PORT");
}

inline std::string to_text(const Address& address) {
  const bool has_colons = address.host.find(':') != std::string::npos;
  return (has_colons ? "[" + address.host + "]" : address.host) + ":" +
         std::to_string(address.port);
}

}  // namespace sluicegate
