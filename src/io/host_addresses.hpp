// IP addresses as values, and which of them names and this machine have.
// Flow:   --instance-urls, --bind -> addresses -> the instance that this process is.
// Shape:  IPv4 as IPv6 maps it (::ffff:192.0.2.7), so that addresses of both families compare.
// Errors: a name that does not resolve has the resolver's reason in place of addresses.
// Lives:  start only: resolve_host() waits for name servers, for seconds where none answers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::io {

struct IpAddress {
  std::array<uint8_t, 16> bytes{};

  // "192.0.2.7" or "2001:db8::7"; nothing for names, brackets and ports.
  static std::optional<IpAddress> parse(const std::string& text);

  bool is_ipv4() const noexcept;
  bool is_loopback() const noexcept;     // 127.0.0.0/8, ::1
  bool is_unspecified() const noexcept;  // 0.0.0.0, ::
  std::string text() const;              // as parse() reads it, the shortest form
  bool operator==(const IpAddress&) const = default;
};

struct ResolvedHost {
  std::vector<IpAddress> addresses;
  std::string error;  // why there are none
};

ResolvedHost resolve_host(const std::string& name);

// Those of all interfaces of this machine, or container. Of 127.0.0.0/8 Linux lists only one.
std::vector<IpAddress> local_addresses();

std::string host_name();

}  // namespace sluice::io
