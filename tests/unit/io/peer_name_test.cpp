// The peer's address as people write it, over either family. Method: sockets on loopback, compared
// with getsockname() at their other ends.
#include "io/peer_name.hpp"

#include "io_fixture.hpp"

namespace sluice::io::test {
namespace {

FileDescriptor accept_at(const Listening& listening) {
  return FileDescriptor(::accept4(listening.sockets[0].get(), nullptr, nullptr, SOCK_CLOEXEC));
}

TEST(PeerName, is_address_and_port) {
  const Listening listening = listen_on({.address = "127.0.0.1"});
  const Client client(listening.port);
  const FileDescriptor accepted = accept_at(listening);
  EXPECT_EQ(peer_name(accepted.get()), "127.0.0.1:" + std::to_string(client.own_port()));
}

TEST(PeerName, of_ipv4_shows_as_such_on_a_listener_of_both_families) {
  const Listening listening = listen_on({});
  const Client client(listening.port);
  const FileDescriptor accepted = accept_at(listening);
  EXPECT_EQ(peer_name(accepted.get()), "127.0.0.1:" + std::to_string(client.own_port()));
}

TEST(PeerName, of_ipv6_is_in_brackets) {
  const Listening listening = listen_on({});
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  address.sin6_port = htons(listening.port);
  const FileDescriptor client(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  socklen_t size = sizeof address;
  ::getsockname(client.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const FileDescriptor accepted = accept_at(listening);
  EXPECT_EQ(peer_name(accepted.get()), "[::1]:" + std::to_string(ntohs(address.sin6_port)));
}

TEST(PeerName, is_empty_without_a_peer) {
  const FileDescriptor alone(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(peer_name(alone.get()), "");
}

}  // namespace
}  // namespace sluice::io::test
