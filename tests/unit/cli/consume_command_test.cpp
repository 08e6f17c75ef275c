// Goal: `consume` sends what its flags say, and reports the server's answer as text and as JSON.
// Method: the subcommand against a scripted server; tests/integration has the real one.
#include "cli/consume_command.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/cli/run_command.hpp"
#include "tests/unit/client/quota_scripts.hpp"

namespace sluice::cli {
namespace {

using sluicegate::QuotaCode;
using sluicegate::test::FakeServer;
using sluicegate::test::Peer;
using sluicegate::test::ReceivedFrame;
using test::run_command;

FakeServer::Script consume_answer(QuotaCode code, ReceivedFrame& received) {
  return FakeServer::welcoming([code, &received](Peer& peer) {
    received = sluicegate::test::read_quota(peer);
    peer.write(sluicegate::test::answers(received.id, 1, {code}, {}, {1'500}));
    peer.at_end();
  });
}

std::string flag_of(const FakeServer& server) {
  return " --address 127.0.0.1:" + std::to_string(server.port());
}

TEST(ConsumeCommand, sends_its_flags) {
  ReceivedFrame received;
  const FakeServer server{consume_answer(QuotaCode::ok, received)};
  const auto outcome = run_command(
      add_consume_command,
      "consume gpt acme --input-tokens 880 --output-tokens 312 --wait --wait-limit-ms 2000 "
      "--id job-7" +
          flag_of(server));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "charged\n");
  EXPECT_EQ(received.subjects, (std::vector<std::string>{"gpt", "acme"}));
  EXPECT_EQ(received.input_tokens, std::vector<uint64_t>{880});
  EXPECT_EQ(received.output_tokens, std::vector<uint64_t>{312});
  EXPECT_EQ(received.flags,
            sluicegate::quota_flag::may_wait | sluicegate::quota_flag::wants_violated);
  EXPECT_EQ(received.wait_limit_ms, 2'000U);
  EXPECT_EQ(received.ids, "job-7");
}

TEST(ConsumeCommand, reports_a_denial_and_when_to_retry) {
  ReceivedFrame received;
  const FakeServer server{consume_answer(QuotaCode::tpm_exceeded, received)};
  const auto outcome = run_command(add_consume_command, "consume gpt" + flag_of(server));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(outcome.errors, "tpm_exceeded: per-minute token limit reached; again in 1500 ms\n");
}

TEST(ConsumeCommand, prints_one_line_of_json) {
  ReceivedFrame received;
  const FakeServer server{consume_answer(QuotaCode::exceeds_limit, received)};
  const auto outcome = run_command(add_consume_command, "consume gpt --json" + flag_of(server));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(nlohmann::json::parse(outcome.output)["code"], "exceeds_limit");
}

}  // namespace
}  // namespace sluice::cli
