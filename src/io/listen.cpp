#include "io/listen.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>

#include "base/assert.hpp"
#include "io/socket_options.hpp"

namespace sluice::io {
namespace {

using namespace std::chrono_literals;

constexpr int backlog = 4096;  // capped by net.core.somaxconn

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family() const { return storage.ss_family; }
};

[[noreturn]] void fail(int error, const std::string& text) {
  throw std::system_error(error, std::generic_category(), text);
}

void set(int fd, int level, int option, std::string_view name, int value) {
  if (::setsockopt(fd, level, option, &value, sizeof value) != 0) {
    const int error = errno;
    fail(error, "cannot set " + std::string(name) + " of a listening socket");
  }
}

void set_port(Address& address, uint16_t port) {
  // sin_port and sin6_port lie at the same place.
  reinterpret_cast<sockaddr_in&>(address.storage).sin_port = htons(port);
}

Address any_address(int family) {
  Address address;
  address.storage.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address.storage).sin6_addr = in6addr_any;
    address.size = sizeof(sockaddr_in6);
  } else {
    reinterpret_cast<sockaddr_in&>(address.storage).sin_addr.s_addr = htonl(INADDR_ANY);
    address.size = sizeof(sockaddr_in);
  }
  return address;
}

Address parse_address(std::string_view text) {
  std::string host(text);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
    fail(EINVAL, "'" + host +
                     "' is not an IP address: give --bind one of this machine, such as "
                     "127.0.0.1 or ::1, or leave it out for all interfaces");
  }
  Address address;
  address.size = found->ai_addrlen;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return address;
}

FileDescriptor open_socket(int family) {
  FileDescriptor fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) fail(errno, "cannot open a listening socket");
  // Connections that linger do not hinder a restart.
  set(fd.get(), SOL_SOCKET, SO_REUSEADDR, "SO_REUSEADDR", 1);
  if (family == AF_INET6) set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, "IPV6_V6ONLY", 0);
  for (const SocketOption& option : connection_options) {
    set(fd.get(), option.level, option.option, option.name, option.value);
  }
  return fd;
}

std::string describe(int error, const ListenOptions& options) {
  const std::string port = std::to_string(options.port);
  const std::string option(options.port_option);
  const std::string address(options.address.empty() ? "any address" : options.address);
  switch (error) {
    case EADDRINUSE:
      if (options.port == 0) return "no port is free on " + address;
      return "port " + port +
             " is in use by another process: stop it, or choose another port with " + option +
             " (" + option + " 0: any free one)";
    case EACCES:
      return "port " + port + " is not allowed for this user: choose one above 1023 with " +
             option + ", or grant CAP_NET_BIND_SERVICE";
    case EADDRNOTAVAIL:
      return address + " is not an address of this machine: choose one with --bind";
    default:
      return "cannot listen on " + address + ", port " + port;
  }
}

void bind_and_listen(const FileDescriptor& fd, const Address& address,
                     const ListenOptions& options) {
  // With SO_REUSEADDR two sockets may be bound; but only one of them can listen().
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::bind(fd.get(), raw, address.size) != 0 || ::listen(fd.get(), backlog) != 0) {
    const int error = errno;
    fail(error, describe(error, options));
  }
}

// The first socket does not share its port while it binds and listens, so it detects any other
// holder of the port, sharing or not, and of two servers that start at once only one succeeds.
FileDescriptor open_first(Address& address, const ListenOptions& options) {
  set_port(address, options.port);
  FileDescriptor fd = open_socket(address.family());
  bind_and_listen(fd, address, options);
  return fd;
}

// Both families, or IPv4 alone where the machine has no IPv6.
FileDescriptor open_first_on_any(Address& address, const ListenOptions& options) {
  try {
    address = any_address(AF_INET6);
    return open_first(address, options);
  } catch (const std::system_error& error) {
    const int code = error.code().value();
    if (code != EAFNOSUPPORT && code != EADDRNOTAVAIL) throw;
  }
  address = any_address(AF_INET);
  return open_first(address, options);
}

uint16_t bound_port(const FileDescriptor& fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    fail(errno, "cannot learn the port of a listening socket");
  }
  return ntohs(reinterpret_cast<sockaddr_in&>(storage).sin_port);
}

Listening listen_now(const ListenOptions& options) {
  ASSERT(options.sockets > 0);
  Address address;
  Listening listening;
  if (options.address.empty()) {
    listening.sockets.push_back(open_first_on_any(address, options));
  } else {
    address = parse_address(options.address);
    listening.sockets.push_back(open_first(address, options));
  }
  listening.port = bound_port(listening.sockets.front());
  set_port(address, listening.port);
  // From here on the port is ours: now it may be shared, among our own sockets.
  if (options.sockets > 1) {
    set(listening.sockets.front().get(), SOL_SOCKET, SO_REUSEPORT, "SO_REUSEPORT", 1);
  }
  while (listening.sockets.size() < options.sockets) {
    FileDescriptor fd = open_socket(address.family());
    set(fd.get(), SOL_SOCKET, SO_REUSEPORT, "SO_REUSEPORT", 1);
    bind_and_listen(fd, address, options);
    listening.sockets.push_back(std::move(fd));
  }
  return listening;
}

}  // namespace

Listening listen_on(const ListenOptions& options) {
  constexpr auto pause = 20ms;
  for (auto left = options.patience;; left -= pause) {
    try {
      return listen_now(options);
    } catch (const std::system_error& error) {
      if (error.code().value() != EADDRINUSE || options.port == 0 || left <= 0ms) throw;
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace sluice::io
