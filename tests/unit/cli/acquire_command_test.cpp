// Goal: `acquire` sends the request of its flags, prints each outcome and sets its exit code.
// Method: the subcommand against a scripted server.
#include "cli/acquire_command.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sluicegate/error.hpp"
#include "tests/unit/cli/run_command.hpp"
#include "tests/unit/client/fake_server.hpp"

namespace sluice::cli {
namespace {

using sluicegate::test::FakeServer;
using sluicegate::test::Peer;
using test::Outcome;
using test::run_command;

Outcome acquire(const FakeServer& server, const std::string& flags) {
  return run_command(add_acquire_command,
                     "acquire user-7 --address 127.0.0.1:" + std::to_string(server.port()) + flags);
}

TEST(AcquireCommand, approved_is_success) {
  const FakeServer server{FakeServer::welcoming([](Peer& peer) {
    const auto frame = peer.read();
    const auto acquire = frame.getAcquire();
    const auto key = acquire.getKeys().asChars();
    const bool as_asked = std::string(key.begin(), key.size()) == "user-7user-7" &&
                          acquire.getCosts()[1] == 5 && !acquire.hasMaxRequests();
    peer.write(sluicegate::test::verdicts(frame.getId(), 2, {uint8_t(as_asked ? 1 : 2)}));
  })};
  const Outcome outcome = acquire(server, " --cost 5 --count 2");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "approved\napproved\n");
}

TEST(AcquireCommand, denied_is_exit_code_1) {
  const FakeServer server{FakeServer::welcoming([](Peer& peer) {
    peer.write(sluicegate::test::answer(peer.read().getId(), [](auto frame) {
      auto to = frame.initVerdicts();
      to.setCount(1);
      const uint8_t denied = 2;
      to.setVerdicts(kj::arrayPtr(&denied, 1));
      auto details = to.initDetails();
      details.initLimit(1).set(0, 100);
      details.initRemaining(1).set(0, 3);
      details.initResetMs(1).set(0, 250);
      details.initRetryAfterMs(1).set(0, 250);
    }));
  })};
  const Outcome outcome = acquire(server, "");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.output.find("denied  3 of 100 remaining"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("retry in 250 ms"), std::string::npos) << outcome.output;
}

TEST(AcquireCommand, waits_for_the_outcome) {
  const FakeServer server{FakeServer::welcoming([](Peer& peer) {
    const auto frame = peer.read();
    const auto id = frame.getId();
    if (frame.getAcquire().getWaitLimitMs() != 900) return;
    peer.write(sluicegate::test::verdicts(id, 1, {3}));
    peer.write(sluicegate::test::granted(id, {0}, {1}));
  })};
  const Outcome outcome = acquire(server, " --wait --wait-limit-ms 900");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "queued\napproved\n");
}

TEST(AcquireCommand, reports_a_refusal) {
  const FakeServer server{FakeServer::welcoming([](Peer& peer) {
    peer.write(sluicegate::test::error(
        peer.read().getId(), sluicegate::test::schema::ErrorCode::BAD_COST, "no such cost"));
  })};
  EXPECT_THROW(acquire(server, " --cost 7"), sluicegate::Refused);
}

TEST(AcquireCommand, a_wait_limit_needs_wait) {
  CLI::App app;
  std::function<int()> run;
  add_acquire_command(app, run);
  EXPECT_THROW(app.parse("acquire user-7 --wait-limit-ms 5"), CLI::ParseError);
  EXPECT_THROW(app.parse("acquire"), CLI::ParseError);
}

}  // namespace
}  // namespace sluice::cli
