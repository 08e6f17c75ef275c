// Goal: what callers have used is charged once, whatever happens to the server between the reserve
// and the settle. Method: kills and restarts the binary that SLUICEGATE names, with and without a
// state file.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "server_program.hpp"
#include "sluicegate/client.hpp"

namespace sluicegate {
namespace {

using test::ping;
using test::Server;

constexpr size_t calls_count = 200;
constexpr auto long_enough = std::chrono::seconds{30};

// A folder for one test, with a file of quotas, which a start without a state file has too.
class Folder {
 public:
  Folder() {
    std::string text = (std::filesystem::temp_directory_path() / "sluicegate-XXXXXX").string();
    EXPECT_NE(mkdtemp(text.data()), nullptr);
    path_ = text;
    std::ofstream{path_ / "limits.json"} << R"({"quotas": {"subjects": [
      {"subject": "gpt-4o", "limits": [
        {"name": "tokens", "metric": "tokens", "amount": 1000000000, "period_ms": 86400000},
        {"name": "requests", "metric": "requests", "amount": 1000000, "period_ms": 86400000}]},
      {"subject": "acme", "limits": [
        {"name": "tokens", "metric": "tokens", "amount": 1000000000, "period_ms": 86400000}]}]}})";
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::vector<std::string> flags(bool has_state) const {
    std::vector<std::string> flags{"--config-file", (path_ / "limits.json").string()};
    if (has_state) flags.insert(flags.end(), {"--state", (path_ / "state").string()});
    return flags;
  }

 private:
  std::filesystem::path path_;
};

ClientOptions options_of(OnFailure policy) {
  return {.on_failure = policy,
          .backoff_first = std::chrono::milliseconds{5},
          .backoff_longest = std::chrono::milliseconds{50},
          .settle_timeout = long_enough};
}

SettleCounts wait_until_none_is_kept(const Client& client) {
  const auto deadline = std::chrono::steady_clock::now() + 2 * long_enough;
  while (client.settles().kept > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return client.settles();
}

uint64_t used(Client& client, std::string_view subject, size_t limit = 0) {
  return client.usage(subject).limits.at(limit).used;
}

std::vector<Reservation> reserve_all(Client& client) {
  std::vector<Reservation> calls;
  for (size_t i = 0; i < calls_count; ++i) {
    calls.push_back(
        client.reserve({"gpt-4o", "acme"},
                       {.input_tokens = 900, .max_output_tokens = 500, .lifetime_ms = 3'600'000}));
    EXPECT_NE(calls.back().id(), 0u);
  }
  return calls;
}

// In each of the three ways, with other amounts than reserved.
constexpr uint64_t used_tokens = 880 + 12;
uint64_t settle_all(std::vector<Reservation>& calls) {
  uint64_t kept = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    const Used used{.input_tokens = 880, .output_tokens = 12};
    if (i % 3 == 0) {
      kept += calls[i].settle(used).kept ? 1 : 0;
    } else if (i % 3 == 1) {
      calls[i].settle_nowait(used);
    } else {
      calls[i].report(used);
    }
  }
  calls.clear();
  return kept;
}

void expect_each_charged_once(Client& client) {
  EXPECT_EQ(used(client, "gpt-4o"), calls_count * used_tokens);
  EXPECT_EQ(used(client, "gpt-4o", 1), calls_count);
  EXPECT_EQ(used(client, "acme"), calls_count * used_tokens);
  EXPECT_EQ(client.usage("gpt-4o").open_reservations, 0u);
}

class CppSettle : public testing::TestWithParam<OnFailure> {};

TEST_P(CppSettle, a_server_without_a_state_file_gets_the_usage_recorded) {
  const Folder folder;
  Server server{folder.flags(false)};
  Client client{server.address(), options_of(GetParam())};
  ping(client);
  auto calls = reserve_all(client);
  server.end(SIGKILL);
  EXPECT_EQ(settle_all(calls), (calls_count + 2) / 3);
  EXPECT_EQ(client.settles().kept, calls_count);
  server.start();
  EXPECT_EQ(wait_until_none_is_kept(client), (SettleCounts{.recorded = calls_count}));
  expect_each_charged_once(client);
}

TEST_P(CppSettle, a_server_with_a_state_file_settles_them) {
  const Folder folder;
  Server server{folder.flags(true)};
  Client client{server.address(), options_of(GetParam())};
  ping(client);
  auto calls = reserve_all(client);
  // Its answer comes when all of it is in the file.
  ASSERT_EQ(client.put_quota("another", {}), QuotaCode::ok);
  server.end(SIGKILL);
  EXPECT_EQ(settle_all(calls), (calls_count + 2) / 3);
  server.start();
  EXPECT_EQ(wait_until_none_is_kept(client), (SettleCounts{.settled = calls_count}));
  expect_each_charged_once(client);
}

// The server stands still while the client repeats, and then gets all of it.
TEST_P(CppSettle, repeats_charge_once) {
  const Folder folder;
  Server server{folder.flags(false)};
  ClientOptions options = options_of(GetParam());
  options.call_timeout = std::chrono::milliseconds{50};
  Client reserving{server.address(), options_of(GetParam())};
  ping(reserving);
  auto calls = reserve_all(reserving);
  Client settling{server.address(), options};
  ping(settling);
  server.send_signal(SIGSTOP);
  for (Reservation& call : calls) {
    settling.settle_nowait(call.detach(), {.input_tokens = 880, .output_tokens = 12});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds{500});
  EXPECT_EQ(settling.settles().kept, calls_count);
  server.send_signal(SIGCONT);
  EXPECT_EQ(wait_until_none_is_kept(settling), (SettleCounts{.settled = calls_count}));
  expect_each_charged_once(reserving);
}

// The server takes a settle after its caller has given up, and forgets the reservation before the
// client repeats it.
TEST_P(CppSettle, one_that_is_forgotten_before_the_repeat_is_charged_once) {
  const Folder folder;
  auto flags = folder.flags(false);
  flags.insert(flags.end(), {"--max-reservations", "1"});
  Server server{flags};
  Client others{server.address(), options_of(GetParam())};
  ping(others);
  ClientOptions options = options_of(GetParam());
  options.call_timeout = std::chrono::milliseconds{500};
  options.backoff_first = options.backoff_longest = std::chrono::hours{1};  // until close()
  Client client{server.address(), options};
  ping(client);
  Reservation call = client.reserve("acme", {.input_tokens = 900, .lifetime_ms = 3'600'000});
  const uint64_t id = call.id();
  ASSERT_NE(id, 0u);
  server.send_signal(SIGSTOP);
  EXPECT_TRUE(call.settle({.input_tokens = 880, .output_tokens = 12}).kept);
  server.send_signal(SIGCONT);
  const auto deadline = std::chrono::steady_clock::now() + long_enough;
  while (used(others, "acme") != used_tokens) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  while (others.settle(id).code != QuotaCode::unknown_reservation) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    (void)others.reserve("acme").cancel();  // on the same shard
  }
  client.close();
  EXPECT_EQ(client.settles(), (SettleCounts{.settled = 1}));
  EXPECT_EQ(used(others, "acme"), used_tokens);
}

TEST_P(CppSettle, close_delivers_what_is_kept) {
  const Folder folder;
  Server server{folder.flags(false)};
  {
    Client client{server.address(), options_of(GetParam())};
    ping(client);
    auto calls = reserve_all(client);
    (void)settle_all(calls);
  }
  Client another{server.address()};
  expect_each_charged_once(another);
}

INSTANTIATE_TEST_SUITE_P(Policies, CppSettle, testing::Values(OnFailure::open, OnFailure::closed),
                         [](const auto& of) {
                           return of.param == OnFailure::open ? std::string{"open"}
                                                              : std::string{"closed"};
                         });

}  // namespace
}  // namespace sluicegate
