// The options of every connection, whichever side began it. Listening sockets have them, because
// the kernel copies them to every accepted socket.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <string_view>

namespace sluice::io {

struct SocketOption {
  int level;
  int option;
  std::string_view name;
  int value;
};

// So long the kernel tries to deliver what was written.
inline constexpr int unacknowledged_ms_max = 25'000;

// A pulled cable is noticed within 30 s: by probes when nothing is on its way (10 s, then 5 s
// each), by the user time-out when something is, a connection's first packet included. The kernel's
// timers may be late by an eighth, hence not 30.
inline constexpr std::array<SocketOption, 6> connection_options = {{
    {IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY", 1},
    {SOL_SOCKET, SO_KEEPALIVE, "SO_KEEPALIVE", 1},
    {IPPROTO_TCP, TCP_KEEPIDLE, "TCP_KEEPIDLE", 10},
    {IPPROTO_TCP, TCP_KEEPINTVL, "TCP_KEEPINTVL", 5},
    {IPPROTO_TCP, TCP_KEEPCNT, "TCP_KEEPCNT", 3},
    {IPPROTO_TCP, TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT", unacknowledged_ms_max},
}};

}  // namespace sluice::io
