// Goal: `top --once` prints one update as plain text, and needs no terminal.
// Method: the subcommand against a scripted server; tests/integration/top_test.py has a terminal.
#include "cli/top_command.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/unit/cli/http_script.hpp"
#include "tests/unit/cli/run_command.hpp"

namespace sluice::cli {
namespace {

using sluicegate::test::FakeServer;
using test::answering;
using test::run_command;

constexpr const char* body =
    R"({"version":"1.2.3","shards":[{"shard":0,"decisionsPerSecond":7,"approvedPerSecond":7,)"
    R"("deniedPerSecond":0,"queuedPerSecond":0,"waiting":0,"keys":1,"connections":1}],"keys":[]})";

std::string words(const FakeServer& server) {
  return "top 127.0.0.1:" + std::to_string(server.port());
}

TEST(TopCommand, once_is_plain_text) {
  const FakeServer server{answering("GET /top?keys=7 ", body)};
  const auto outcome = run_command(add_top_command, words(server) + " --once --keys 7");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.output.starts_with("sluicegate 1.2.3 at 127.0.0.1:")) << outcome.output;
  EXPECT_EQ(outcome.output.find('\x1B'), std::string::npos);
  EXPECT_EQ(outcome.errors, "");
}

TEST(TopCommand, prints_a_note_without_a_terminal) {
  const FakeServer server{answering("GET /top?keys=20 ", body)};
  const auto outcome = run_command(add_top_command, words(server));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.errors.find("no terminal"), std::string::npos);
}

TEST(TopCommand, another_answer_is_a_fault) {
  const FakeServer server{answering("GET /top", "{\"version\":1}")};
  EXPECT_THROW(run_command(add_top_command, words(server) + " --once"), std::runtime_error);
}

TEST(TopCommand, refuses_values_out_of_bounds) {
  EXPECT_THROW(run_command(add_top_command, "top --keys 0"), CLI::ParseError);
  EXPECT_THROW(run_command(add_top_command, "top --keys 101"), CLI::ParseError);
  EXPECT_THROW(run_command(add_top_command, "top --interval-millis 99"), CLI::ParseError);
}

}  // namespace
}  // namespace sluice::cli
