#include "io/peer_address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

namespace sluice::io {
namespace {

constexpr std::array<uint8_t, 12> ipv4_prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

std::string host_text(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(family, address, text.data(), text.size()) == nullptr ? "?" : text.data();
}

PeerAddress from_ipv4(const in_addr& address, uint16_t port) {
  PeerAddress peer{.port = port};
  std::ranges::copy(ipv4_prefix, peer.bytes.begin());
  std::memcpy(peer.bytes.data() + ipv4_prefix.size(), &address, sizeof address);
  return peer;
}

std::optional<uint16_t> parse_port(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return port;
}

// Without its brackets, or empty.
std::string host_of(std::string_view text, bool bracketed) {
  if (!bracketed) return std::string(text);
  return text.ends_with(']') ? std::string(text.substr(1, text.size() - 2)) : std::string();
}

}  // namespace

std::optional<PeerAddress> PeerAddress::parse(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {};
  const std::optional<uint16_t> port = parse_port(text.substr(colon + 1));
  if (!port) return {};
  const bool bracketed = text.starts_with('[');
  const std::string host = host_of(text.substr(0, colon), bracketed);
  if (bracketed) {
    PeerAddress peer{.port = *port};
    if (::inet_pton(AF_INET6, host.c_str(), peer.bytes.data()) != 1) return {};
    return peer;
  }
  in_addr address{};
  if (::inet_pton(AF_INET, host.c_str(), &address) != 1) return {};
  return from_ipv4(address, *port);
}

std::optional<PeerAddress> PeerAddress::from(const sockaddr_storage& address) noexcept {
  if (address.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    return from_ipv4(ipv4.sin_addr, ntohs(ipv4.sin_port));
  }
  if (address.ss_family != AF_INET6) return {};
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
  PeerAddress peer{.scope = ipv6.sin6_scope_id, .port = ntohs(ipv6.sin6_port)};
  std::memcpy(peer.bytes.data(), &ipv6.sin6_addr, peer.bytes.size());
  return peer;
}

bool PeerAddress::is_ipv4() const noexcept {
  return std::equal(ipv4_prefix.begin(), ipv4_prefix.end(), bytes.begin());
}

std::string PeerAddress::text() const {
  const std::string host =
      is_ipv4() ? host_text(AF_INET, bytes.data() + ipv4_prefix.size())
                : std::string("[").append(host_text(AF_INET6, bytes.data())).append("]");
  return host + ":" + std::to_string(port);
}

SocketAddress::SocketAddress(const PeerAddress& peer) noexcept {
  if (peer.is_ipv4()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(peer.port);
    std::memcpy(&address.sin_addr, peer.bytes.data() + ipv4_prefix.size(), sizeof(in_addr));
    std::memcpy(&address_, &address, sizeof address);
    size_ = sizeof address;
    return;
  }
  address_.sin6_family = AF_INET6;
  address_.sin6_port = htons(peer.port);
  address_.sin6_scope_id = peer.scope;
  std::memcpy(&address_.sin6_addr, peer.bytes.data(), peer.bytes.size());
  size_ = sizeof address_;
}

}  // namespace sluice::io
