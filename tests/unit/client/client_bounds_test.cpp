// Goal: the client keeps to its own bounds, and to those that the server announces.
// Method: a fake server with a script of the frames that it reads and writes; a test waits for
// events, never for a length of time.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "client_scripts.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using namespace test;

// ------------------------------------------------------------------------------ room in the client

TEST(Client, full_client_refuses_calls_when_configured) {
  Event go_on;
  FakeServer server = serve([&](Peer& peer) {
    EXPECT_TRUE(go_on.wait());
    approve_all(peer);
  });
  Client client{address_of(server), {.pending_max = 3, .when_full = WhenFull::refuse}};
  std::vector<std::future<Outcome>> futures;
  for (int i = 0; i < 3; ++i) futures.push_back(client.acquire_future("key"));
  EXPECT_EQ(client.acquire_future("key").get().failure, Failure::overloaded);
  EXPECT_THROW((void)client.acquire("key"), Overloaded);
  go_on.happen();
  for (auto& future : futures) EXPECT_TRUE(future.get());
}

TEST(Client, full_client_makes_callers_wait_for_room) {
  Event go_on;
  FakeServer server = serve([&](Peer& peer) {
    EXPECT_TRUE(go_on.wait());
    approve_all(peer);
  });
  Client client{address_of(server), {.pending_max = 3}};
  Outcomes outcomes;
  std::thread caller{[&] {
    for (int i = 0; i < 100; ++i) client.acquire_async("key", outcomes.next());
  }};
  wait_until_pending(client, 3);
  go_on.happen();
  EXPECT_EQ(outcomes.wait_for(100).size(), 100u);
  caller.join();
}

TEST(Client, does_not_send_calls_that_timed_out_before) {
  Event timed_out;
  FakeServer server = serve([&](Peer& peer) {
    peer.write(pong(read(peer).id));
    const Question first = read(peer);
    EXPECT_TRUE(timed_out.wait());
    peer.write(verdict_for_all(first, approved));
    const Question second = read(peer);
    EXPECT_EQ(second.keys.size(), 1u) << "pending_max is 3";
    EXPECT_EQ(second.keys.back(), "last");
    peer.write(verdict_for_all(second, approved));
    approve_all(peer);
  });
  Client client =
      connected(server, {.pending_max = 3, .when_full = WhenFull::refuse, .frames_in_flight = 1});
  auto first = client.acquire_future("first");
  for (int i = 0; i < 50; ++i) {
    EXPECT_THROW((void)client.acquire("gone", {.timeout = 2ms}), TimedOut);
  }
  auto last = client.acquire_future("last");
  timed_out.happen();
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(last.get());
}

// --------------------------------------------------------------------------- the bounds of Welcome

TEST(Client, does_not_send_calls_that_the_server_would_refuse) {
  FakeServer server = serve(approve_all);
  Client client{address_of(server)};
  EXPECT_THROW((void)client.acquire("key", {.cost = 1'000'000'001}), std::invalid_argument);
  EXPECT_THROW(client.release("key", 0), std::invalid_argument);
  EXPECT_THROW((void)client.acquire("key", {.max_requests = 0}), std::invalid_argument);
  EXPECT_THROW((void)client.acquire("key", {.window_ms = 9}), std::invalid_argument);
  EXPECT_THROW((void)client.acquire("key", {.wait_limit_ms = 3'600'001}), std::invalid_argument);
  EXPECT_THROW((void)client.acquire(std::string(65'536, 'k')), std::invalid_argument);
  EXPECT_THROW((void)client.acquire_batch(std::vector<uint32_t>{7}), std::invalid_argument);
  EXPECT_THROW(Client("no port"), std::invalid_argument);
  EXPECT_THROW(Client("localhost:1", {.pending_max = 0}), std::invalid_argument);
  EXPECT_THROW(Client("localhost:1", {.call_timeout = 0ms}), std::invalid_argument);
}

TEST(Client, keeps_to_the_outstanding_frames_of_welcome) {
  std::atomic<int> frames{0};
  FakeServer server = serve([&](Peer& peer) {
    peer.write(pong(read(peer).id));
    for (;;) {
      read(peer);
      ++frames;
    }
  });
  Client client = connected(server, {.on_failure = OnFailure::closed, .call_timeout = sent_before});
  const std::vector<std::string_view> keys(20'000, "key");
  (void)client.acquire_batch(keys);
  EXPECT_LE(frames, 4);
}

// A server that interns keys on its first connection only: on the next the client sends the keys.
struct ByKey {
  std::atomic<int> connections{0};
  std::atomic<size_t> key_bytes{0};
  std::atomic<bool> answer{false};
  FakeServer server = serve([this](Peer& peer) {
    const bool is_first = connections++ == 0;
    if (is_first) peer.write(pong(read(peer).id));
    size_t interned = 0;
    for (;;) {
      const Question question = read(peer);
      if (question.kind == schema::ClientFrame::INTERN) {
        interned += question.keys.size();
        peer.write(is_first ? interned_from(question, 1)
                            : test::interned(question.id,
                                             std::vector<uint32_t>(question.keys.size(), no_handle),
                                             {13}));
        if (is_first && interned == count) return;
        continue;
      }
      for (const auto& key : question.keys) key_bytes += key.size();
      if (answer) peer.write(verdict_for_all(question, approved));
    }
  });
  size_t count = 0;
  std::vector<uint32_t> intern(Client& client, size_t keys_count, size_t key_size) {
    count = keys_count;
    std::vector<std::string> texts;
    for (size_t i = 0; i < keys_count; ++i) {
      std::string text = std::to_string(i);
      texts.push_back(std::string(key_size - text.size(), 'k') + text);
    }
    const std::vector<std::string_view> keys{texts.begin(), texts.end()};
    auto handles = client.intern(keys);
    while (connections < 2 || client.connections() < 1) std::this_thread::sleep_for(1ms);
    return handles;
  }
};

TEST(Client, keeps_to_the_outstanding_bytes_of_welcome) {
  ByKey by_key;
  Client client = connected(by_key.server, {.on_failure = OnFailure::closed, .call_timeout = 60s});
  const auto handles = by_key.intern(client, 40'000, 20);
  (void)client.acquire_batch(handles, {.timeout = sent_before});
  EXPECT_LE(by_key.key_bytes, 256u * 1024);
}

TEST(Client, acquires_handles_with_long_keys_by_key) {
  ByKey by_key;
  by_key.answer = true;
  Client client = connected(by_key.server, {.on_failure = OnFailure::closed, .call_timeout = 60s});
  const auto handles = by_key.intern(client, 80'000, 60);
  const BatchOutcome outcome = client.acquire_batch(handles);
  EXPECT_EQ(outcome.failed, 0u) << name(outcome.failure);
}

}  // namespace
}  // namespace sluicegate
