// Goal: the REST port is the one that was given, or that the native port announces.
// Method: rest_address() with a scripted server, and with variables of the environment.
#include "cli/rest_server.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tests/unit/client/fake_server.hpp"

namespace sluice::cli {
namespace {

using sluicegate::test::FakeServer;
using sluicegate::test::Peer;

class RestServerTest : public testing::Test {
 protected:
  ~RestServerTest() override {
    ::unsetenv("SLUICEGATE_REST_ADDRESS");
    ::unsetenv("SLUICEGATE_ADDRESS");
  }

  static FakeServer::Script announcing(uint16_t rest_port) {
    return [rest_port](Peer& peer) {
      peer.read();
      peer.write(
          sluicegate::test::welcome_with([rest_port](auto to) { to.setRestPort(rest_port); }));
      peer.at_end();
    };
  }
  static std::string native_address(const FakeServer& server) {
    return "127.0.0.1:" + std::to_string(server.port());
  }
};

TEST_F(RestServerTest, is_the_default_port_where_nothing_is_given) {
  EXPECT_EQ(rest_address({}), "127.0.0.1:8080");
}

TEST_F(RestServerTest, prefers_what_was_given_to_the_environment) {
  ::setenv("SLUICEGATE_REST_ADDRESS", "a:1", 1);
  EXPECT_EQ(rest_address({}), "a:1");
  EXPECT_EQ(rest_address({.rest_address = "b:2"}), "b:2");
}

TEST_F(RestServerTest, is_the_port_that_the_native_one_announces) {
  for (const bool by_variable : {false, true}) {
    const FakeServer server{announcing(4'711)};
    if (by_variable) ::setenv("SLUICEGATE_ADDRESS", native_address(server).c_str(), 1);
    RestServer given;
    if (!by_variable) given.native_address = native_address(server);
    EXPECT_EQ(rest_address(given), "127.0.0.1:4711");
  }
}

TEST_F(RestServerTest, has_to_be_given_where_an_older_server_announces_none) {
  const FakeServer server{announcing(0)};
  try {
    rest_address({.native_address = native_address(server)});
    ADD_FAILURE() << "no port was announced";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string{error.what()}.find("--rest-address HOST:PORT"), std::string::npos);
  }
}

}  // namespace
}  // namespace sluice::cli
