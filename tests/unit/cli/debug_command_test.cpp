// Goal: `debug` shows one key, or all pages of them up to --limit, as a table or as JSON, and never
// lets a key's bytes loose on the terminal.
// Method: the subcommand against a scripted server.
#include "cli/debug_command.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
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

// The n-th key has approved n, and so on.
std::string inspected(uint64_t id, const std::vector<std::string>& keys, uint64_t cursor = 0) {
  return sluicegate::test::answer(id, [&](auto frame) {
    auto to = frame.initInspected();
    const auto count = static_cast<unsigned>(keys.size());
    std::string text;
    for (const std::string& key : keys) text += key;
    to.setCursor(cursor);
    to.setKeys(kj::arrayPtr(reinterpret_cast<const kj::byte*>(text.data()), text.size()));
    auto sizes = to.initKeySizes(count);
    auto window = to.initWindowMs(count);
    auto limit = to.initMaxRequests(count);
    auto queue = to.initMaxRequestsInQueue(count);
    auto approved = to.initApproved(count);
    auto denied = to.initDenied(count);
    auto waiting = to.initWaiting(count);
    auto reset = to.initResetMs(count);
    for (unsigned i = 0; i < count; ++i) {
      sizes.set(i, static_cast<uint16_t>(keys[i].size()));
      approved.set(i, i + 1);
      limit.set(i, 100);
      denied.set(i, 17);
      waiting.set(i, 3);
      queue.set(i, 400);
      window.set(i, 60'000);
      reset.set(i, 59'000);
    }
  });
}

Outcome debug(const FakeServer& server, const std::string& words) {
  return run_command(add_debug_command,
                     "debug --address 127.0.0.1:" + std::to_string(server.port()) + words);
}

FakeServer::Script one_page(const std::vector<std::string>& keys) {
  return FakeServer::welcoming(
      [keys](Peer& peer) { peer.write(inspected(peer.read().getId(), keys)); });
}

// Two pages, the second for the cursor of the first.
void write_two_pages(Peer& peer) {
  peer.write(inspected(peer.read().getId(), {"a", "b"}, 77));
  const auto frame = peer.read();
  if (frame.getInspect().getCursor() != 77) return;
  peer.write(inspected(frame.getId(), {"c"}));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream{text};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(DebugCommand, one_key_is_a_header_and_a_row) {
  const FakeServer server{FakeServer::welcoming([](Peer& peer) {
    const auto frame = peer.read();
    const auto key = frame.getInspect().getKey().asChars();
    if (std::string(key.begin(), key.size()) != "user-7") return;
    peer.write(inspected(frame.getId(), {"user-7"}));
  })};
  const Outcome outcome = debug(server, " user-7");
  EXPECT_EQ(outcome.exit_code, 0);
  const std::string expected =
      "  APPROVED       LIMIT    DENIED   WAITING     QUEUE  WINDOW ms   LEFT ms  KEY\n"
      "         1         100        17         3       400      60000     59000  user-7\n";
  EXPECT_EQ(outcome.output, expected);
}

TEST(DebugCommand, a_key_that_is_not_live_is_exit_code_1) {
  const FakeServer server{one_page({})};
  const Outcome outcome = debug(server, " user-7");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(outcome.errors, "user-7 is not live\n");
}

TEST(DebugCommand, all_pages_are_shown) {
  const FakeServer server{FakeServer::welcoming(write_two_pages)};
  const Outcome outcome = debug(server, "");
  EXPECT_EQ(outcome.exit_code, 0);
  const auto lines = lines_of(outcome.output);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_TRUE(lines[2].ends_with("  b"));
  EXPECT_TRUE(lines[3].ends_with("  c"));
  EXPECT_EQ(outcome.errors, "");
}

TEST(DebugCommand, no_keys_at_all_is_success) {
  const FakeServer server{one_page({})};
  const Outcome outcome = debug(server, " --json");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "");
}

TEST(DebugCommand, the_limit_holds_whatever_the_server_sends) {
  for (const char* limit : {"1", "2"}) {
    const FakeServer server{FakeServer::welcoming(write_two_pages)};
    const Outcome outcome = debug(server, std::string{" --limit "} + limit);
    EXPECT_EQ(lines_of(outcome.output).size(), 1U + std::stoul(limit));
    EXPECT_NE(outcome.errors.find("--limit"), std::string::npos) << "there are more keys";
  }
}

TEST(DebugCommand, json_is_a_line_for_each_key) {
  const FakeServer server{one_page({"a\"\n", "b\xFF"})};
  const auto lines = lines_of(debug(server, " --json").output);
  ASSERT_EQ(lines.size(), 2U);
  const auto first = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(first["key"], "a\"\n");
  EXPECT_EQ(first["approved"], 1);
  EXPECT_EQ(first["maxRequests"], 100);
  EXPECT_EQ(first["denied"], 17);
  EXPECT_EQ(first["waiting"], 3);
  EXPECT_EQ(first["maxRequestsInQueue"], 400);
  EXPECT_EQ(first["windowMillis"], 60'000);
  EXPECT_EQ(first["resetMillis"], 59'000);
  EXPECT_EQ(nlohmann::json::parse(lines[1])["key"], "b\uFFFD");
}

TEST(DebugCommand, no_control_character_reaches_the_terminal) {
  const FakeServer server{one_page({"\x1B[2J", "a\x7F", "\u202Eevil", "\x9B", "gr\u00FCn"})};
  const auto lines = lines_of(debug(server, "").output);
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_TRUE(lines[1].ends_with(R"(  "\x1b[2J")")) << lines[1];
  EXPECT_TRUE(lines[2].ends_with(R"(  "a\x7f")")) << lines[2];
  EXPECT_TRUE(lines[3].ends_with(R"(  "\u202eevil")")) << lines[3];
  EXPECT_TRUE(lines[4].ends_with(R"(  "\x9b")")) << lines[4];
  EXPECT_TRUE(lines[5].ends_with("  gr\u00FCn")) << lines[5];
}

TEST(DebugCommand, reports_a_refusal) {
  const FakeServer server{FakeServer::welcoming([](Peer& peer) {
    peer.write(sluicegate::test::error(
        peer.read().getId(), sluicegate::test::schema::ErrorCode::UNSUPPORTED, "no such frame"));
  })};
  EXPECT_THROW(debug(server, ""), sluicegate::Refused);
}

}  // namespace
}  // namespace sluice::cli
