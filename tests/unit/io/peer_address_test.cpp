// Addresses of peers: text and the kernel's form, both families, and back.
#include "io/peer_address.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace sluice::io::test {
namespace {

sockaddr_storage stored(const SocketAddress& address) {
  sockaddr_storage storage{};
  std::memcpy(&storage, address.raw(), address.size());
  return storage;
}

TEST(PeerAddress, is_read_and_written_as_people_write_it) {
  for (const std::string text : {"192.0.2.7:51234", "127.0.0.1:0", "[2001:db8::7]:65535",
                                 "[::1]:8081", "[::]:1", "255.255.255.255:1"}) {
    const std::optional<PeerAddress> peer = PeerAddress::parse(text);
    ASSERT_TRUE(peer) << text;
    EXPECT_EQ(peer->text(), text);
  }
}

TEST(PeerAddress, is_not_read_from_anything_else) {
  for (const char* text : {"",
                           ":",
                           ":80",
                           "192.0.2.7",
                           "192.0.2.7:",
                           "192.0.2.7:65536",
                           "192.0.2.7:-1",
                           "192.0.2.7: 1",
                           "192.0.2.7:1 ",
                           "192.0.2:1",
                           "256.0.0.1:1",
                           "localhost:1",
                           "::1:80",
                           "[::1]",
                           "[::1:80",
                           "[::1]x:80",
                           "[192.0.2.7]:80",
                           "[]:80",
                           "[:80",
                           "192.0.2.7:0x1"}) {
    EXPECT_FALSE(PeerAddress::parse(text)) << text;
  }
}

TEST(PeerAddress, of_ipv4_is_one_address_however_it_is_written) {
  const PeerAddress peer = PeerAddress::parse("[::ffff:192.0.2.7]:80").value();
  EXPECT_EQ(peer, PeerAddress::parse("192.0.2.7:80"));
  EXPECT_TRUE(peer.is_ipv4());
  EXPECT_EQ(peer.text(), "192.0.2.7:80");
  EXPECT_FALSE(PeerAddress::parse("[::1]:80")->is_ipv4());
}

TEST(PeerAddress, goes_to_the_kernel_and_back_in_its_own_family) {
  for (const char* text : {"192.0.2.7:51234", "[fe80::7]:51234"}) {
    PeerAddress peer = PeerAddress::parse(text).value();
    if (!peer.is_ipv4()) peer.scope = 3;
    const SocketAddress address(peer);
    EXPECT_EQ(address.family(), peer.is_ipv4() ? AF_INET : AF_INET6);
    EXPECT_EQ(address.size(), peer.is_ipv4() ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    EXPECT_EQ(PeerAddress::from(stored(address)), peer) << text;
  }
}

TEST(PeerAddress, is_not_made_of_another_family) {
  sockaddr_storage storage{};
  storage.ss_family = AF_UNIX;
  EXPECT_FALSE(PeerAddress::from(storage));
}

TEST(PeerAddress, differs_by_host_port_and_interface) {
  const PeerAddress peer = PeerAddress::parse("[fe80::7]:80").value();
  PeerAddress other = peer;
  other.scope = 1;
  EXPECT_NE(peer, other);
  EXPECT_NE(peer, PeerAddress::parse("[fe80::7]:81").value());
  EXPECT_NE(peer, PeerAddress::parse("[fe80::8]:80").value());
}

}  // namespace
}  // namespace sluice::io::test
