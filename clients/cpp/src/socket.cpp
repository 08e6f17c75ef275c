#include "socket.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "sluicegate/address.hpp"
#include "sluicegate/error.hpp"

namespace sluicegate {
namespace {

using Clock = Platform::Clock;
using Milliseconds = std::chrono::milliseconds;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int fault = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (fault != 0) {
    throw ConnectionLost("cannot resolve " + host + ": " + gai_strerror(fault));
  }
  return {found, &freeaddrinfo};
}

// Detects a server whose cable was pulled within half a minute, as the server detects a client.
void prepare(int socket_fd) {
  const auto set = [socket_fd](int option, int value) {
    setsockopt(socket_fd, IPPROTO_TCP, option, &value, sizeof value);
  };
  const int on = 1;
  setsockopt(socket_fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  set(TCP_NODELAY, 1);
  set(TCP_KEEPIDLE, 10);
  set(TCP_KEEPINTVL, 5);
  set(TCP_KEEPCNT, 3);
  set(TCP_USER_TIMEOUT, 25'000);
}

// 0, or the errno that ended the attempt.
int connect_one(Platform& platform, int socket, const addrinfo& address, Clock::time_point deadline,
                const std::atomic<bool>* stop) {
  if (connect(socket, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_for(platform, socket, POLLOUT, deadline, stop)) return ETIMEDOUT;
  int fault = 0;
  socklen_t size = sizeof fault;
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &fault, &size);
  return fault;
}

}  // namespace

bool wait_for(Platform& platform, int socket, short events, Platform::Deadline deadline,
              const std::atomic<bool>* stop) {
  constexpr Milliseconds stop_poll{50};  // how often `stop` is checked
  for (;;) {
    pollfd watched{.fd = socket, .events = events, .revents = 0};
    auto until = deadline;
    if (stop != nullptr) {
      const auto next_check = platform.now() + stop_poll;
      if (!until || *until > next_check) until = next_check;
    }
    if (platform.poll({&watched, 1}, until)) return true;
    if (until == deadline || (stop != nullptr && *stop)) return false;
  }
}

int connect_tcp(Platform& platform, const std::string& host, uint16_t port, Milliseconds timeout,
                const std::atomic<bool>* stop) {
  const auto deadline = platform.now() + timeout;
  const Addresses addresses = resolve(host, port);
  int fault = 0;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    const int socket_fd =
        socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol);
    if (socket_fd < 0) {
      fault = errno;
      continue;
    }
    fault = connect_one(platform, socket_fd, *at, deadline, stop);
    if (fault == 0) {
      prepare(socket_fd);
      return socket_fd;
    }
    close(socket_fd);
  }
  const std::string where = to_text(Address{host, port});
  if (fault == ETIMEDOUT) throw TimedOut("no connection to " + where + " in time");
  throw ConnectionLost("cannot connect to " + where + ": " + std::strerror(fault));
}

}  // namespace sluicegate
