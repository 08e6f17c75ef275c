// Goal: the C++ client and a real server agree on every permit, and no call is lost or completed
// twice while the server is killed under load again and again. Method: starts and kills the binary
// that SLUICEGATE names, on its own port.
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server_program.hpp"
#include "sluicegate/client.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;

using test::ping;
using test::Server;

ClientOptions quick(ClientOptions options = {}) {
  options.backoff_first = 1ms;
  options.backoff_longest = 20ms;
  return options;
}

std::vector<std::string> many_keys() {
  std::vector<std::string> keys;
  for (int i = 0; i < 5'000; ++i) keys.push_back("key:" + std::to_string(i));
  return keys;
}

class CppClient : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<std::string> flags(std::vector<std::string> more) {
    more.insert(more.end(), {"--shards", GetParam(), "--window-millis", "3600000"});
    return more;
  }
};

TEST_P(CppClient, threads_share_a_limit_to_the_permit) {
  Server server{flags({"--max-requests", "500"})};
  Client client{server.address(), quick()};
  ping(client);
  std::atomic<int> approved{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        approved += client.acquire("key").approved() ? 1 : 0;
        client.acquire_async(
            "key", [&](const Outcome& outcome) { approved += outcome.approved() ? 1 : 0; });
      }
    });
  }
  for (std::thread& each : threads) each.join();
  while (client.pending() > 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(approved, 500);
  const auto state = client.inspect("key");
  ASSERT_TRUE(state);
  EXPECT_EQ(state->approved, 500u);
  EXPECT_EQ(state->denied, 1'100u);
}

TEST_P(CppClient, inspect_all_has_each_key) {
  Server server{flags({"--max-requests", "10"})};
  Client client{server.address(), quick()};
  ping(client);
  std::vector<std::string> texts = many_keys();
  const std::vector<std::string_view> keys{texts.begin(), texts.end()};
  EXPECT_TRUE(client.acquire_batch(keys, {.cost = 6}).all_approved());
  std::vector<std::string> found;
  for (const KeyState& each : client.inspect_all()) {
    found.push_back(each.key);
    EXPECT_EQ(each.approved, 6u);
  }
  std::sort(found.begin(), found.end());
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(found, texts);
}

TEST_P(CppClient, details_say_what_is_left) {
  Server server{flags({"--max-requests", "10"})};
  Client client{server.address(), quick()};
  ping(client);
  const AcquireOptions options{.cost = 7, .window_ms = 3'600'000, .wants_details = true};
  const Outcome first = client.acquire("key", options);
  EXPECT_TRUE(first);
  EXPECT_EQ(first.limit, 10u);
  EXPECT_EQ(first.remaining, 3u);
  EXPECT_EQ(first.window_ms, 3'600'000u);
  EXPECT_EQ(first.retry_after_ms, 0u);
  const Outcome second = client.acquire_future("key", options).get();
  EXPECT_EQ(second.verdict, Verdict::denied);
  EXPECT_EQ(second.remaining, 3u);
  EXPECT_GT(second.retry_after_ms, 0u);
  EXPECT_LE(second.retry_after_ms, 3'600'000u);
  const std::vector<std::string_view> keys{"key", "another"};
  const BatchOutcome batch = client.acquire_batch(keys, options);
  EXPECT_EQ(batch.remaining, (std::vector<uint32_t>{3, 3}));
  EXPECT_EQ(batch[0].verdict, Verdict::denied);
  EXPECT_TRUE(batch[1]);
}

TEST_P(CppClient, batches_apply_their_options) {
  Server server{flags({"--max-requests", "10"})};
  Client client{server.address(), quick()};
  ping(client);
  const std::vector<std::string> texts = many_keys();
  const std::vector<std::string_view> keys{texts.begin(), texts.end()};
  EXPECT_TRUE(client.acquire_batch(keys, {.cost = 6}).all_approved());
  const auto handles = client.intern(keys);
  const BatchOutcome second = client.acquire_batch(handles, {.cost = 5});
  for (const Verdict verdict : second.verdicts) EXPECT_EQ(verdict, Verdict::denied);
  EXPECT_TRUE(client.acquire_batch(handles, {.cost = 4}).all_approved());
}

TEST_P(CppClient, released_permits_serve_the_queue) {
  Server server{flags({"--max-requests", "1"})};
  Client client{server.address(), quick()};
  ping(client);
  ASSERT_TRUE(client.acquire("key"));
  auto waiting = client.acquire_future("key", {.may_wait = true});
  const auto is_in_queue = [&] { return client.inspect("key")->waiting == 1; };
  while (!is_in_queue()) std::this_thread::sleep_for(1ms);
  client.reset_key("key");
  EXPECT_TRUE(waiting.get());
  EXPECT_EQ(client.inspect("key")->approved, 1u);
  const auto timed_out = client.acquire("key", {.may_wait = true, .timeout = 2s});
  EXPECT_EQ(timed_out.verdict, Verdict::wait_limit);
  while (client.inspect("key")->waiting > 0) std::this_thread::sleep_for(1ms);
}

TEST_P(CppClient, handles_survive_a_restart_of_the_server) {
  Server server{flags({"--max-requests", "2"})};
  Client client{server.address(), quick()};
  ping(client);
  const std::vector<std::string> texts = many_keys();
  const std::vector<std::string_view> keys{texts.begin(), texts.end()};
  const auto handles = client.intern(keys);
  EXPECT_TRUE(client.acquire_batch(handles).all_approved());
  server.end(SIGTERM);
  server.start();
  ping(client);
  EXPECT_TRUE(client.acquire_batch(handles).all_approved());
  EXPECT_TRUE(client.acquire_batch(keys).all_approved()) << "they name the same keys";
  for (const Verdict verdict : client.acquire_batch(handles).verdicts) {
    EXPECT_EQ(verdict, Verdict::denied);
  }
}

TEST_P(CppClient, requeue_survives_a_restart_of_the_server) {
  Server server{flags({"--max-requests", "2"})};
  Client client{server.address(), quick({.requeue = true})};
  ping(client);
  ASSERT_TRUE(client.acquire("key"));
  server.end(SIGKILL);
  auto meanwhile = client.acquire_future("key", {.timeout = 60s});
  EXPECT_EQ(meanwhile.wait_for(300ms), std::future_status::timeout) << "the server is down";
  server.start();
  EXPECT_TRUE(meanwhile.get());
}

// ------------------------------------------------------------------------------- the kills

// Counts how often a call's callback ran; checked at the end.
struct Called {
  std::atomic<uint32_t> times{0};
};

// Calls without end: asynchronous ones, waits in the queue that are cancelled, batches of keys and
// of handles, releases.
class Caller {
 public:
  Caller(Client& client, std::vector<uint32_t> handles, const std::atomic<bool>& is_over)
      : handles_{std::move(handles)}, thread_{[this, &client, &is_over] {
          run(client, is_over);
        }} {}
  void join() { thread_.join(); }
  const std::deque<Called>& called() const noexcept { return called_; }

 private:
  void run(Client& client, const std::atomic<bool>& is_over) {
    for (uint32_t i = 0; !is_over; ++i) {
      Called& called = called_.emplace_back();
      const auto done = [&called](const Outcome&) { ++called.times; };
      const std::string key = "key:" + std::to_string(i % 100);
      if (i % 10 == 0) {
        const Ticket ticket = client.acquire_async("queue", done, {.may_wait = true});
        if (i % 20 == 0) client.cancel(ticket);
      } else if (i % 10 == 1) {
        client.release_async("queue", 1, done);
      } else {
        client.acquire_async(key, done);
      }
      if (i % 50 == 0) block(client, key);
      if (i % 1'000 == 0) std::this_thread::sleep_for(1ms);
    }
  }
  void block(Client& client, const std::string& key) {
    const std::vector<std::string_view> keys(50, key);
    EXPECT_EQ(client.acquire_batch(keys).verdicts.size(), 50u);
    EXPECT_EQ(client.acquire_batch(handles_).verdicts.size(), handles_.size());
    (void)client.acquire(key, {.may_wait = true, .timeout = 20ms});
  }

  const std::vector<uint32_t> handles_;
  std::deque<Called> called_;  // its references stay valid
  std::thread thread_;
};

// Kills the server repeatedly while callers make calls; at the end closes the client during calls.
void expect_each_call_completes_once(Server& server, int kills, const ClientOptions& options) {
  std::atomic<bool> is_over{false};
  std::vector<std::unique_ptr<Caller>> callers;
  {
    Client client{server.address(), options};
    ping(client);
    const std::vector<std::string_view> keys{"key:1", "key:2", "key:3"};
    const auto handles = client.intern(keys);
    for (int i = 0; i < 3; ++i) {
      callers.push_back(std::make_unique<Caller>(client, handles, is_over));
    }
    for (int kill = 0; kill < kills; ++kill) {
      server.end(SIGKILL);
      server.start();
      ping(client);  // the client is connected to the new server, and the callers continue
      std::this_thread::sleep_for(std::chrono::milliseconds{kill % 7});
    }
    client.close();
    is_over = true;
    for (const auto& caller : callers) caller->join();
  }
  size_t calls = 0;
  size_t wrong = 0;
  for (const auto& caller : callers) {
    calls += caller->called().size();
    for (const Called& called : caller->called()) wrong += called.times == 1 ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0u) << "of " << calls << " calls";
  EXPECT_GT(calls, static_cast<size_t>(kills));
}

// `tools/test long` kills more often.
int kills_of_a_run() {
  const char* text = std::getenv("KILLS");
  return text == nullptr ? 30 : std::atoi(text);
}

TEST_P(CppClient, no_callback_is_lost_or_doubled_by_kills) {
  Server server{flags({"--max-requests", "1000"})};
  expect_each_call_completes_once(server, kills_of_a_run(),
                                  quick({.on_failure = OnFailure::closed, .pending_max = 5'000}));
}

TEST_P(CppClient, no_callback_is_lost_or_doubled_by_kills_with_requeue) {
  Server server{flags({"--max-requests", "1000"})};
  expect_each_call_completes_once(
      server, 30, quick({.on_failure = OnFailure::open, .requeue = true, .pending_max = 5'000}));
}

INSTANTIATE_TEST_SUITE_P(Shards, CppClient, ::testing::Values("1", "3"),
                         [](const auto& shards) { return "shards_" + std::string{shards.param}; });

}  // namespace
}  // namespace sluicegate
