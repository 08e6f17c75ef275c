// Listening sockets: who else holds the port is noticed, and what accepted sockets inherit.
#include "io/listen.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string>
#include <system_error>

#include "io_fixture.hpp"

namespace sluice::io::test {
namespace {

std::string error_of(const ListenOptions& options) {
  try {
    listen_on(options);
    return "";
  } catch (const std::system_error& error) {
    return error.what();
  }
}

// A plain socket on a port, not one of ours.
FileDescriptor hold_port(uint16_t port, bool shared) {
  FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (shared) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool held = ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                    ::listen(fd.get(), 1) == 0;
  EXPECT_TRUE(held);
  return fd;
}

uint16_t free_port() {
  return listen_on({.address = "127.0.0.1"}).port;
}

FileDescriptor accept_from(const Listening& listening, size_t socket = 0) {
  return FileDescriptor(::accept4(listening.sockets[socket].get(), nullptr, nullptr, SOCK_CLOEXEC));
}

int option_of(const FileDescriptor& fd, int level, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  ::getsockopt(fd.get(), level, option, &value, &size);
  return value;
}

TEST(Listen, port_0_asks_for_a_free_one) {
  const Listening first = listen_on({.address = "127.0.0.1"});
  const Listening second = listen_on({.address = "127.0.0.1"});
  EXPECT_NE(first.port, 0);
  EXPECT_NE(second.port, 0);
  EXPECT_NE(first.port, second.port);
  EXPECT_TRUE(Client(first.port).connected());
}

TEST(Listen, notices_a_port_in_use_and_names_the_cure) {
  const uint16_t port = free_port();
  const FileDescriptor holder = hold_port(port, false);
  const std::string error =
      error_of({.address = "127.0.0.1", .port = port, .port_option = "--native-port"});
  EXPECT_NE(error.find("port " + std::to_string(port) + " is in use"), std::string::npos) << error;
  EXPECT_NE(error.find("--native-port"), std::string::npos) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(Listen, notices_a_port_that_another_process_would_share) {
  const uint16_t port = free_port();
  const FileDescriptor holder = hold_port(port, true);
  EXPECT_NE(error_of({.address = "127.0.0.1", .port = port}), "");
  EXPECT_NE(error_of({.address = "127.0.0.1", .port = port, .sockets = 2}), "");
}

TEST(Listen, notices_another_server_of_ours_with_one_socket_or_several) {
  for (const uint32_t sockets : {1u, 3u}) {
    const Listening first = listen_on({.address = "127.0.0.1", .sockets = sockets});
    EXPECT_NE(error_of({.address = "127.0.0.1", .port = first.port, .sockets = 1}), "") << sockets;
    EXPECT_NE(error_of({.address = "127.0.0.1", .port = first.port, .sockets = 3}), "") << sockets;
  }
}

TEST(Listen, notices_an_ipv4_holder_when_all_interfaces_are_asked_for) {
  const uint16_t port = free_port();
  const FileDescriptor holder = hold_port(port, false);
  EXPECT_NE(error_of({.port = port}), "");
}

TEST(Listen, several_sockets_share_the_connections) {
  const Listening listening = listen_on({.address = "127.0.0.1", .sockets = 3});
  ASSERT_EQ(listening.sockets.size(), 3u);
  std::vector<std::unique_ptr<Client>> clients;
  for (int each = 0; each < 90; ++each) {
    clients.push_back(std::make_unique<Client>(listening.port));
    ASSERT_TRUE(clients.back()->connected());
  }
  size_t sum = 0;
  for (size_t socket = 0; socket < 3; ++socket) {
    size_t count = 0;
    while (accept_from(listening, socket).is_open()) ++count;
    EXPECT_GT(count, 0u) << socket;
    sum += count;
  }
  EXPECT_EQ(sum, 90u);
}

TEST(Listen, a_restart_is_not_hindered_by_lingering_connections) {
  uint16_t port = 0;
  {
    const Listening listening = listen_on({.address = "127.0.0.1"});
    port = listening.port;
    const Client client(port);
    accept_from(listening).reset();  // our side ends first: TIME_WAIT is on our port
  }
  EXPECT_EQ(error_of({.address = "127.0.0.1", .port = port}), "");
}

TEST(Listen, all_interfaces_are_reached_over_ipv4_and_ipv6) {
  const Listening listening = listen_on({});
  EXPECT_TRUE(Client(listening.port).connected());
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  address.sin6_port = htons(listening.port);
  const FileDescriptor client(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const FileDescriptor other(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 own = address;
  own.sin6_port = 0;
  if (!other.is_open() || ::bind(other.get(), reinterpret_cast<sockaddr*>(&own), sizeof own) != 0) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

TEST(Listen, accepted_sockets_inherit_the_options) {
  const Listening listening = listen_on({.address = "127.0.0.1"});
  const Client client(listening.port);
  const FileDescriptor accepted = accept_from(listening);
  ASSERT_TRUE(accepted.is_open());
  EXPECT_EQ(option_of(accepted, IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(option_of(accepted, SOL_SOCKET, SO_KEEPALIVE), 1);
  const int idle_s = option_of(accepted, IPPROTO_TCP, TCP_KEEPIDLE);
  const int interval_s = option_of(accepted, IPPROTO_TCP, TCP_KEEPINTVL);
  const int probes = option_of(accepted, IPPROTO_TCP, TCP_KEEPCNT);
  EXPECT_GT(idle_s, 0);
  EXPECT_LE(idle_s + interval_s * probes, 30);
  EXPECT_GT(option_of(accepted, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
  EXPECT_LE(option_of(accepted, IPPROTO_TCP, TCP_USER_TIMEOUT), 30'000);
}

TEST(Listen, refuses_what_is_not_an_address) {
  EXPECT_NE(error_of({.address = "no such host"}).find("'no such host' is not an IP address"),
            std::string::npos);
}

TEST(Listen, refuses_an_address_of_another_machine) {
  const std::string error = error_of({.address = "192.0.2.1"});
  EXPECT_NE(error.find("192.0.2.1 is not an address of this machine"), std::string::npos) << error;
}

TEST(Listen, takes_ipv6_addresses_in_brackets) {
  const std::string error = error_of({.address = "[::1]"});
  EXPECT_TRUE(error.empty() || error.find("is not an address of this machine") != std::string::npos)
      << error;
}

}  // namespace
}  // namespace sluice::io::test
