// Goal: `quota holders` names the address of a server whose answer it cannot read.
// Method: the subcommand against a scripted server; tests/integration/quota_command_line_test.py
//         has the real one.
#include "cli/holders_command.hpp"

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

// What is said of a server that answers with the body.
std::string fault_of(const std::string& body) {
  const FakeServer server{answering("GET /v1/reservations?limit=", body)};
  const std::string address = "127.0.0.1:" + std::to_string(server.port());
  try {
    run_command(add_holders_command, "holders --rest-address " + address);
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    return text.starts_with(address + ": ") ? text.substr(address.size() + 2) : text;
  }
  return "";
}

TEST(HoldersCommand, another_answer_is_a_fault) {
  const std::string fault = "the body is not an answer to GET /v1/reservations: ";
  EXPECT_TRUE(fault_of("{}").starts_with(fault));
  EXPECT_TRUE(fault_of(R"({"reservations":[{"reservation":1}],"cursor":null})").starts_with(fault));
  EXPECT_EQ(fault_of("hello"), "the answer is not JSON");
}

}  // namespace
}  // namespace sluice::cli
