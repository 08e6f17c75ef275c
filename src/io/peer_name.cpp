#include "io/peer_name.hpp"

#include <sys/socket.h>

#include "io/peer_address.hpp"

namespace sluice::io {

std::string peer_name(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  const std::optional<PeerAddress> peer = PeerAddress::from(storage);
  return peer ? peer->text() : std::string();
}

}  // namespace sluice::io
