// Goal: `release` releases the permits of its flags, `reset` all there can be, and the exit code
//       shows success.
// Method: the subcommand against a scripted server.
#include "cli/release_command.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/limits.hpp"
#include "cli/reset_command.hpp"
#include "sluicegate/error.hpp"
#include "tests/unit/cli/run_command.hpp"
#include "tests/unit/client/fake_server.hpp"

namespace sluice::cli {
namespace {

using sluicegate::test::FakeServer;
using sluicegate::test::Peer;
using test::run_command;

std::string words(const FakeServer& server, const std::string& flags) {
  return "release user-7 --address 127.0.0.1:" + std::to_string(server.port()) + flags;
}

TEST(ReleaseCommand, done_is_success) {
  const FakeServer server{FakeServer::welcoming([](Peer& peer) {
    const auto frame = peer.read();
    const auto release = frame.getRelease();
    const auto key = release.getKeys().asChars();
    if (std::string(key.begin(), key.size()) != "user-7" || release.getCosts()[0] != 5) return;
    peer.write(sluicegate::test::answer(frame.getId(), [](auto answer) { answer.setDone(); }));
  })};
  const auto outcome = run_command(add_release_command, words(server, " --cost 5"));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "released\n");
}

TEST(ResetCommand, releases_as_many_permits_as_a_window_can_have) {
  uint32_t cost = 0;
  const FakeServer server{FakeServer::welcoming([&cost](Peer& peer) {
    const auto frame = peer.read();
    cost = frame.getRelease().getCosts()[0];
    peer.write(sluicegate::test::answer(frame.getId(), [](auto answer) { answer.setDone(); }));
  })};
  const auto outcome = run_command(
      add_reset_command, "reset user-7 --address 127.0.0.1:" + std::to_string(server.port()));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "reset\n");
  EXPECT_EQ(cost, limits::permits_max);
}

TEST(ReleaseCommand, reports_a_refusal) {
  const FakeServer server{FakeServer::welcoming([](Peer& peer) {
    peer.write(sluicegate::test::error(
        peer.read().getId(), sluicegate::test::schema::ErrorCode::DRAINING, "going down"));
  })};
  EXPECT_THROW(run_command(add_release_command, words(server, "")), sluicegate::Refused);
}

TEST(ReleaseCommand, waits_for_a_silent_server_until_the_time_out) {
  const FakeServer server{FakeServer::welcoming([](Peer& peer) {
    peer.read();
    peer.at_end();
  })};
  EXPECT_THROW(run_command(add_release_command, words(server, " --timeout-millis 50")),
               sluicegate::TimedOut);
}

TEST(ReleaseCommand, needs_a_key_and_a_cost_within_bounds) {
  EXPECT_THROW(run_command(add_release_command, "release"), CLI::ParseError);
  EXPECT_THROW(run_command(add_release_command, "release k --cost 0"), CLI::ParseError);
}

}  // namespace
}  // namespace sluice::cli
