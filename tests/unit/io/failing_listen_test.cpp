// A listener where the kernel lacks IPv6, or refuses.
#include "failing_io_fixture.hpp"

namespace sluice::io::test {
namespace {

// A kernel without IPv6 (ipv6.disable=1).
TEST(FailingListen, all_interfaces_are_those_of_ipv4_without_ipv6) {
  uint16_t port = 0;
  Listening listening;
  {
    const FailingCall failing(Call::socket, EAFNOSUPPORT, {.failing = 1});
    listening = listen_on({});
    port = listening.port;
    EXPECT_EQ(failing.failed_count(), 1u);
  }
  EXPECT_TRUE(Client(port).connected());
}

TEST(FailingListen, an_option_that_is_refused_is_named) {
  const FailingCall failing(Call::setsockopt, ENOPROTOOPT, {.skipped = 1, .failing = 1});
  try {
    listen_on({.address = "127.0.0.1"});
    FAIL() << "no exception";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOPROTOOPT);
    EXPECT_TRUE(std::string(error.what()).starts_with("cannot set TCP_NODELAY of a listening"))
        << error.what();
  }
}

TEST(FailingListen, without_descriptors_it_is_an_error) {
  const FailingCall failing(Call::socket, EMFILE);
  EXPECT_THROW(listen_on({.address = "127.0.0.1"}), std::system_error);
}

}  // namespace
}  // namespace sluice::io::test
