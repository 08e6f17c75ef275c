// Goal: an address is the same value however it is written, and this machine's are found.
// Method: texts by example; the loopback interface, and the names that every machine knows.
#include "io/host_addresses.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::io {
namespace {

IpAddress address(const char* text) {
  return IpAddress::parse(text).value();
}

TEST(HostAddresses, are_values_of_both_families) {
  EXPECT_EQ(address("192.0.2.7"), address("::ffff:192.0.2.7"));
  EXPECT_EQ(address("2001:db8:0:0::7"), address("2001:0DB8::0007"));
  EXPECT_NE(address("192.0.2.7"), address("192.0.2.8"));
  EXPECT_TRUE(address("::ffff:192.0.2.7").is_ipv4());
  EXPECT_FALSE(address("2001:db8::7").is_ipv4());
}

TEST(HostAddresses, have_one_text) {
  EXPECT_EQ(address("::ffff:192.0.2.7").text(), "192.0.2.7");
  EXPECT_EQ(address("2001:0DB8:0:0::0007").text(), "2001:db8::7");
}

TEST(HostAddresses, are_no_names_ports_or_brackets) {
  for (const char* text : {"", "a", "localhost", "1.2.3", "192.0.2.7:80", "[::1]", "192.0.2.256"}) {
    EXPECT_FALSE(IpAddress::parse(text)) << text;
  }
}

TEST(HostAddresses, know_loopback_and_unspecified) {
  for (const char* text : {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(address(text).is_loopback()) << text;
    EXPECT_FALSE(address(text).is_unspecified()) << text;
  }
  for (const char* text : {"0.0.0.0", "::"}) {
    EXPECT_TRUE(address(text).is_unspecified()) << text;
    EXPECT_FALSE(address(text).is_loopback()) << text;
  }
  for (const char* text : {"128.0.0.1", "::2", "1::1"}) {
    EXPECT_FALSE(address(text).is_loopback() || address(text).is_unspecified()) << text;
  }
}

TEST(HostAddresses, of_a_name_that_resolves) {
  const ResolvedHost host = resolve_host("localhost");
  ASSERT_FALSE(host.addresses.empty()) << host.error;
  EXPECT_TRUE(std::ranges::all_of(host.addresses, &IpAddress::is_loopback));
  EXPECT_EQ(host.error, "");
}

TEST(HostAddresses, of_a_literal_is_itself_once) {
  EXPECT_EQ(resolve_host("192.0.2.7").addresses, std::vector{address("192.0.2.7")});
}

TEST(HostAddresses, of_no_name_have_a_reason_instead) {
  const ResolvedHost host = resolve_host("..");  // no name: the resolver asks nobody
  EXPECT_TRUE(host.addresses.empty());
  EXPECT_NE(host.error, "");
}

TEST(HostAddresses, of_this_machine_include_loopback) {
  const auto addresses = local_addresses();
  EXPECT_TRUE(std::ranges::any_of(addresses, &IpAddress::is_loopback));
}

TEST(HostAddresses, have_a_host_name) {
  EXPECT_NE(host_name(), "");
}

}  // namespace
}  // namespace sluice::io
