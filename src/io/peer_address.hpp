// Where a peer listens, or from where it came: an address of IPv4 or IPv6 and a port. Names are
// resolved by whoever asks to connect.
// Flow:   configuration, a resolver -> PeerAddress -> Io::connect().
// Shape:  "192.0.2.7:51234", "[2001:db8::7]:51234". IPv4 is kept as IPv6 keeps it (::ffff:a.b.c.d),
//         and shows as IPv4: both ways to write it are one address.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::io {

struct PeerAddress {
  std::array<uint8_t, 16> bytes{};  // in network order
  uint32_t scope = 0;               // of a link-local IPv6 address: the interface's number
  uint16_t port = 0;

  // Numbers only, with a port.
  static std::optional<PeerAddress> parse(std::string_view text);
  // Nothing: of another family.
  static std::optional<PeerAddress> from(const sockaddr_storage& address) noexcept;

  bool is_ipv4() const noexcept;
  std::string text() const;

  auto operator<=>(const PeerAddress&) const = default;
};

// A PeerAddress as the kernel takes it. One of IPv4 is reached through IPv4, so that it works on
// machines without IPv6.
class SocketAddress {
 public:
  explicit SocketAddress(const PeerAddress& peer) noexcept;

  int family() const noexcept { return address_.sin6_family; }
  const sockaddr* raw() const noexcept { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const noexcept { return size_; }

 private:
  sockaddr_in6 address_{};  // the larger of the two
  socklen_t size_ = 0;
};

}  // namespace sluice::io
