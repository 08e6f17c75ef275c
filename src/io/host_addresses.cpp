#include "io/host_addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>

namespace sluice::io {
namespace {

constexpr std::array<uint8_t, 12> mapped_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr size_t ipv4_begin = mapped_prefix.size();

IpAddress from_ipv4(const in_addr& address) {
  IpAddress mapped;
  std::ranges::copy(mapped_prefix, mapped.bytes.begin());
  std::memcpy(mapped.bytes.data() + ipv4_begin, &address, sizeof address);
  return mapped;
}

IpAddress from_ipv6(const in6_addr& address) {
  IpAddress same;
  std::memcpy(same.bytes.data(), &address, sizeof address);
  return same;
}

std::optional<IpAddress> from_socket_address(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    return from_ipv4(reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
  }
  if (address->sa_family == AF_INET6) {
    return from_ipv6(reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  }
  return std::nullopt;
}

void add_once(std::vector<IpAddress>& addresses, const sockaddr* address) {
  const std::optional<IpAddress> found = from_socket_address(address);
  if (found && std::ranges::find(addresses, *found) == addresses.end()) addresses.push_back(*found);
}

}  // namespace

std::optional<IpAddress> IpAddress::parse(const std::string& text) {
  in_addr ipv4{};
  if (::inet_pton(AF_INET, text.c_str(), &ipv4) == 1) return from_ipv4(ipv4);
  in6_addr ipv6{};
  if (::inet_pton(AF_INET6, text.c_str(), &ipv6) == 1) return from_ipv6(ipv6);
  return std::nullopt;
}

bool IpAddress::is_ipv4() const noexcept {
  return std::equal(mapped_prefix.begin(), mapped_prefix.end(), bytes.begin());
}

bool IpAddress::is_loopback() const noexcept {
  if (is_ipv4()) return bytes[ipv4_begin] == IN_LOOPBACKNET;
  IpAddress ipv6;
  ipv6.bytes.back() = 1;
  return *this == ipv6;
}

bool IpAddress::is_unspecified() const noexcept {
  const size_t begin = is_ipv4() ? ipv4_begin : 0;
  return std::all_of(bytes.begin() + static_cast<ptrdiff_t>(begin), bytes.end(),
                     [](uint8_t byte) { return byte == 0; });
}

std::string IpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool short_form = is_ipv4();
  ::inet_ntop(short_form ? AF_INET : AF_INET6, bytes.data() + (short_form ? ipv4_begin : 0),
              text.data(), text.size());
  return text.data();
}

ResolvedHost resolve_host(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int fault = ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  if (fault != 0) return {.addresses = {}, .error = ::gai_strerror(fault)};
  ResolvedHost host;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    add_once(host.addresses, each->ai_addr);
  }
  if (host.addresses.empty()) host.error = "no address";
  return host;
}

std::vector<IpAddress> local_addresses() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(found, &::freeifaddrs);
  std::vector<IpAddress> addresses;
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    add_once(addresses, each->ifa_addr);
  }
  return addresses;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace sluice::io
