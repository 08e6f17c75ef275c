#include "bench/limits/sockets.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "io/listen.hpp"
#include "load/own_server.hpp"

namespace sluice::limits_bench {

void throw_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

io::FileDescriptor connect_to(uint16_t port) {
  io::FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) throw_errno("cannot open a socket");
  const int on = 1;
  if (::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
    throw_errno("cannot prepare a socket");
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    throw_errno("cannot connect over loopback");
  }
  return fd;
}

std::vector<Pair> connect_pairs(uint32_t count) {
  const io::Listening listening = io::listen_on({.address = "127.0.0.1"});
  std::vector<Pair> pairs;
  for (uint32_t i = 0; i < count; ++i) {
    Pair pair;
    pair.client = connect_to(listening.port);
    // The connection exists already: connect() has waited for it. It has the listener's options.
    pair.server = io::FileDescriptor(
        ::accept4(listening.sockets.front().get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!pair.server.is_open()) throw_errno("cannot accept over loopback");
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

void end_clients(const std::vector<Pair>& pairs) {
  for (const Pair& pair : pairs) ::shutdown(pair.client.get(), SHUT_WR);
}

void make_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) throw_errno("fcntl failed");
}

void limit_waits(int fd, double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timeval time{
      .tv_sec = whole,
      .tv_usec = static_cast<suseconds_t>(1e6 * (seconds - static_cast<double>(whole)))};
  if (::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) != 0 ||
      ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) != 0) {
    throw_errno("cannot limit how long a socket waits");
  }
}

void pin_if_asked(int cpu) {
  if (cpu >= 0) load::pin_to_cpu(cpu);
}

}  // namespace sluice::limits_bench
