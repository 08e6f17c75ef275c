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

TEST(FailingListen, an_address_that_is_refused_is_named_with_the_cure) {
  const auto refusal_of = [](const ListenOptions& options, int error) -> std::string {
    const FailingCall failing(Call::bind, error);
    try {
      listen_on(options);
    } catch (const std::system_error& refusal) {
      EXPECT_EQ(refusal.code().value(), error);
      return refusal.what();
    }
    return "no exception";
  };
  const ListenOptions privileged{
      .address = "127.0.0.1", .port = 80, .port_option = "--native-port"};
  EXPECT_TRUE(refusal_of(privileged, EACCES)
                  .starts_with("port 80 is not allowed for this user: choose one above 1023 with "
                               "--native-port, or grant CAP_NET_BIND_SERVICE"));
  EXPECT_TRUE(refusal_of(privileged, ENOMEM).starts_with("cannot listen on 127.0.0.1, port 80"));
  EXPECT_TRUE(
      refusal_of({.address = "127.0.0.1"}, EADDRINUSE).starts_with("no port is free on 127.0.0.1"));
}

TEST(FailingListen, a_port_that_cannot_be_learned_is_an_error) {
  const FailingCall failing(Call::getsockname, ENOBUFS);
  EXPECT_THROW(listen_on({.address = "127.0.0.1"}), std::system_error);
}

TEST(FailingListen, without_descriptors_it_is_an_error) {
  const FailingCall failing(Call::socket, EMFILE);
  EXPECT_THROW(listen_on({.address = "127.0.0.1"}), std::system_error);
}

}  // namespace
}  // namespace sluice::io::test
