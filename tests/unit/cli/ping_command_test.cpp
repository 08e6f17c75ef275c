// Goal: `ping` counts the answers, and its exit code shows whether all arrived.
// Method: the subcommand against a scripted server that stops answering.
#include "cli/ping_command.hpp"

#include <gtest/gtest.h>

#include <string>

#include "sluicegate/error.hpp"
#include "tests/unit/cli/run_command.hpp"
#include "tests/unit/client/fake_server.hpp"

namespace sluice::cli {
namespace {

using sluicegate::test::FakeServer;
using sluicegate::test::Peer;
using test::Outcome;
using test::run_command;

// Answers `count` pings, then ends the connection.
Outcome ping(int count, const std::string& flags) {
  const FakeServer server{FakeServer::welcoming([count](Peer& peer) {
    for (int i = 0; i < count; ++i) {
      const auto frame = peer.read();
      if (!frame.isPing()) return;
      peer.write(sluicegate::test::answer(frame.getId(), [](auto answer) { answer.setPong(); }));
    }
  })};
  return run_command(add_ping_command,
                     "ping --address 127.0.0.1:" + std::to_string(server.port()) + flags);
}

TEST(PingCommand, all_answered_is_success) {
  const Outcome outcome = ping(3, " --count 3");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.output.starts_with("3 of 3 answered: min ")) << outcome.output;
  EXPECT_NE(outcome.output.find("(sluicegate fake, shard 0 of 1)"), std::string::npos);
  EXPECT_EQ(outcome.errors, "");
}

TEST(PingCommand, some_answered_is_exit_code_1) {
  const Outcome outcome = ping(2, " --count 3");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.output.starts_with("2 of 3 answered: min ")) << outcome.output;
  EXPECT_TRUE(outcome.errors.starts_with("Error: ")) << outcome.errors;
}

TEST(PingCommand, none_answered_is_an_error) {
  EXPECT_THROW(ping(0, ""), sluicegate::ConnectionLost);
}

TEST(PingCommand, refuses_a_count_of_nothing) {
  EXPECT_THROW(run_command(add_ping_command, "ping --count 0"), CLI::ParseError);
}

}  // namespace
}  // namespace sluice::cli
