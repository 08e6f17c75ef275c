// Goal: `reserve` and `settle` report the server's answers, as text and as JSON, and a reservation
//       that was made is printed whatever happens next.
// Method: the subcommands against a scripted server; tests/integration has the real one.
#include "cli/reserve_command.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/settle_command.hpp"
#include "tests/unit/cli/run_command.hpp"
#include "tests/unit/client/quota_scripts.hpp"

namespace sluice::cli {
namespace {

using sluicegate::test::FakeServer;
using sluicegate::test::Peer;
using test::run_command;

// Answers ok to the first request and ends the connection.
FakeServer::Script answering_once() {
  return FakeServer::welcoming(
      [](Peer& peer) { peer.write(sluicegate::test::ok(sluicegate::test::read_quota(peer))); });
}

std::string at(const FakeServer& server) {
  return " --address 127.0.0.1:" + std::to_string(server.port());
}

// Whether the subjects have limits is asked afterwards.
TEST(ReserveCommand, prints_its_reservation_when_the_server_ends_behind_it) {
  const FakeServer server{answering_once(), 3};
  const auto outcome = run_command(add_reserve_command, "reserve gpt" + at(server));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "0000001189abcdef\n");
  EXPECT_EQ(outcome.errors, "");
}

TEST(SettleCommand, prints_one_line_of_json) {
  const FakeServer server{answering_once()};
  const auto outcome =
      run_command(add_settle_command, "settle 0000001189abcdef --json" + at(server));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(outcome.output)["code"], "ok");
}

}  // namespace
}  // namespace sluice::cli
