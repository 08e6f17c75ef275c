// Listening sockets: another holder of the port is noticed, and accepted sockets inherit the
// options.
#include "io/listen.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

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

// Whether this machine has it: some have no IPv6.
bool has_address(const std::string& address) {
  return address.find(':') == address.npos || error_of({.address = address}).empty();
}

// A connection to the loopback address of the family that `address` is of.
FileDescriptor connect_to(const std::string& address, uint16_t port) {
  const bool is_ipv6 = address.find(':') != address.npos;
  FileDescriptor fd(::socket(is_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_in);
  if (is_ipv6) {
    auto& to = reinterpret_cast<sockaddr_in6&>(storage);
    to.sin6_addr = in6addr_loopback;
    to.sin6_port = htons(port);
    size = sizeof to;
  } else {
    auto& to = reinterpret_cast<sockaddr_in&>(storage);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(port);
  }
  storage.ss_family = is_ipv6 ? AF_INET6 : AF_INET;
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0) fd.reset();
  return fd;
}

std::vector<FileDescriptor> connect_all(const Listening& listening, const std::string& address,
                                        size_t count) {
  std::vector<FileDescriptor> clients;
  for (size_t each = 0; each < count; ++each) {
    clients.push_back(connect_to(address, listening.port));
    EXPECT_TRUE(clients.back().is_open());
  }
  return clients;
}

// How many each socket has to accept.
std::vector<size_t> accepted_by_socket(const Listening& listening) {
  std::vector<size_t> counts(listening.sockets.size());
  for (size_t socket = 0; socket < counts.size(); ++socket) {
    while (accept_from(listening, socket).is_open()) ++counts[socket];
  }
  return counts;
}

// `clients` stay open until here.
size_t accepted_of(const Listening& listening, const std::vector<FileDescriptor>& clients) {
  size_t sum = 0;
  for (const size_t count : accepted_by_socket(listening)) sum += count;
  EXPECT_EQ(sum, clients.size());
  return sum;
}

uint16_t port_of(const FileDescriptor& fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&storage), &size);
  return ntohs(reinterpret_cast<sockaddr_in&>(storage).sin_port);
}

// One socket, or a group that shares the port; IPv4, IPv6, and both at once.
class ListenGroup : public ::testing::TestWithParam<std::tuple<const char*, uint32_t>> {
 protected:
  void SetUp() override {
    if (!has_address(peer())) GTEST_SKIP() << "this machine has no IPv6";
  }
  ListenOptions options(uint16_t port = 0) const {
    return {.address = std::get<0>(GetParam()), .port = port, .sockets = std::get<1>(GetParam())};
  }
  // The address that clients connect to.
  static std::string peer() {
    const std::string address = std::get<0>(GetParam());
    if (!address.empty()) return address;
    return has_address("::1") ? "::1" : "127.0.0.1";
  }
};

TEST_P(ListenGroup, port_0_gives_one_port_for_all) {
  const Listening listening = listen_on(options());
  ASSERT_EQ(listening.sockets.size(), options().sockets);
  EXPECT_NE(listening.port, 0);
  for (const FileDescriptor& socket : listening.sockets) EXPECT_EQ(port_of(socket), listening.port);
}

TEST_P(ListenGroup, shares_the_connections) {
  const Listening listening = listen_on(options());
  const size_t count = 40 * listening.sockets.size();
  const std::vector<FileDescriptor> clients = connect_all(listening, peer(), count);
  const std::vector<size_t> counts = accepted_by_socket(listening);
  EXPECT_EQ(std::count(counts.begin(), counts.end(), 0u), 0) << "a socket got none";
  size_t sum = 0;
  for (const size_t each : counts) sum += each;
  EXPECT_EQ(sum, count);
}

TEST_P(ListenGroup, keeps_its_port_to_itself) {
  const Listening listening = listen_on(options());
  for (const uint32_t sockets : {1u, 2u, 8u}) {
    ListenOptions other = options(listening.port);
    other.sockets = sockets;
    const std::string error = error_of(other);
    EXPECT_NE(error.find("port " + std::to_string(listening.port) + " is in use"),
              std::string::npos)
        << sockets << ": " << error;
  }
  EXPECT_EQ(accepted_of(listening, connect_all(listening, peer(), 16)), 16u)
      << "the others' attempts took connections away";
}

TEST_P(ListenGroup, frees_its_port) {
  const uint16_t port = listen_on(options()).port;
  const Listening again = listen_on(options(port));
  EXPECT_EQ(again.port, port);
  EXPECT_EQ(again.sockets.size(), options().sockets);
}

TEST_P(ListenGroup, waits_for_a_port_that_is_freed) {
  Listening held = listen_on(options());
  ListenOptions patient = options(held.port);
  patient.patience = std::chrono::seconds(60);
  std::thread holder([&held] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    held.sockets.clear();
  });
  EXPECT_EQ(error_of(patient), "");
  holder.join();
}

TEST_P(ListenGroup, gives_up_after_its_patience) {
  const Listening held = listen_on(options());
  ListenOptions patient = options(held.port);
  patient.patience = std::chrono::milliseconds(50);
  EXPECT_NE(error_of(patient).find("is in use"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Listen, ListenGroup,
                         ::testing::Combine(::testing::Values("127.0.0.1", "::1", ""),
                                            ::testing::Values(1u, 2u, 8u)),
                         [](const auto& group) {
                           const std::string address = std::get<0>(group.param);
                           const std::string family =
                               address.empty() ? "any" : (address == "::1" ? "ipv6" : "ipv4");
                           return family + "_" + std::to_string(std::get<1>(group.param));
                         });

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

TEST(Listen, notices_a_group_on_one_address_when_all_interfaces_are_asked_for) {
  for (const char* address : {"127.0.0.1", "::1"}) {
    if (!has_address(address)) continue;
    const Listening first = listen_on({.address = address, .sockets = 2});
    EXPECT_NE(error_of({.port = first.port, .sockets = 2}), "") << address;
    EXPECT_EQ(accepted_of(first, connect_all(first, address, 4)), 4u);
  }
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

TEST(Listen, a_group_on_all_interfaces_is_reached_over_ipv4) {
  const Listening listening = listen_on({.sockets = 4});
  const std::vector<FileDescriptor> clients = connect_all(listening, "127.0.0.1", 160);
  const std::vector<size_t> counts = accepted_by_socket(listening);
  EXPECT_EQ(std::count(counts.begin(), counts.end(), 0u), 0) << "a socket got none";
}

TEST(Listen, of_two_servers_that_start_at_once_no_more_than_one_has_the_port) {
  for (int round = 0; round < 200; ++round) {
    const uint16_t port = free_port();
    std::array<Listening, 2> servers;
    std::barrier start(2);
    const auto try_to_listen = [&](Listening& server) {
      start.arrive_and_wait();
      try {
        server = listen_on({.address = "127.0.0.1", .port = port, .sockets = 4});
      } catch (const std::system_error&) {
        // The other one was first.
      }
    };
    std::thread other([&] { try_to_listen(servers[1]); });
    try_to_listen(servers[0]);
    other.join();
    ASSERT_TRUE(servers[0].sockets.empty() || servers[1].sockets.empty()) << "round " << round;
  }
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

TEST(Listen, refuses_text_that_is_not_an_address) {
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
