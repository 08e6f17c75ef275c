#include "io/peer_name.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

namespace sluice::io {
namespace {

std::string with_port(std::string host, in_port_t port) {
  return host.append(":").append(std::to_string(ntohs(port)));
}

std::string host_text(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(family, address, text.data(), text.size()) == nullptr ? "?" : text.data();
}

}  // namespace

std::string peer_name(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  if (storage.ss_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(storage);
    return with_port(host_text(AF_INET, &address.sin_addr), address.sin_port);
  }
  const auto& address = reinterpret_cast<const sockaddr_in6&>(storage);
  const uint8_t* const bytes = address.sin6_addr.s6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr)) {
    return with_port(host_text(AF_INET, bytes + 12), address.sin6_port);
  }
  return with_port(std::string("[").append(host_text(AF_INET6, bytes)).append("]"),
                   address.sin6_port);
}

}  // namespace sluice::io
