// Goal: each entry of a batch gets its own answer, by key or by handle, on one shard or many.
// Method: a fake server with a script of the frames that it reads and writes; a test waits for
// events, never for a length of time.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client_scripts.hpp"
#include "proto/key_hash.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using namespace test;

// ----------------------------------------------------------------------------------------- batches

TEST(Client, cuts_a_batch_into_frames_and_merges_the_answers) {
  FakeServer server = serve([](Peer& peer) {
    for (;;) {  // denies every key that ends in 7
      const Question question = read(peer);
      EXPECT_LE(question.keys.size(), 1'024u);
      std::vector<uint8_t> verdicts;
      for (const std::string& key : question.keys) {
        verdicts.push_back(key.back() == '7' ? denied : approved);
      }
      peer.write(test::verdicts(question.id, static_cast<unsigned>(verdicts.size()), verdicts));
    }
  });
  Client client{address_of(server)};
  std::vector<std::string> texts;
  for (int i = 0; i < 10'000; ++i) texts.push_back(std::to_string(i));
  const std::vector<std::string_view> keys{texts.begin(), texts.end()};
  const BatchOutcome outcome = client.acquire_batch(keys);
  ASSERT_EQ(outcome.verdicts.size(), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(outcome.verdicts[i], i % 10 == 7 ? Verdict::denied : Verdict::approved) << i;
  }
  EXPECT_TRUE(client.acquire_batch(std::span<const std::string_view>{}).all_approved());
}

TEST(Client, lost_batch_keeps_the_verdicts_that_were_answered) {
  std::atomic<int> connections{0};
  FakeServer server = serve([&](Peer& peer) {
    if (connections++ > 0) return approve_all(peer);
    peer.write(pong(read(peer).id));
    peer.write(verdict_for_all(read(peer), approved));
  });
  Client client = connected(server, {.on_failure = OnFailure::closed});
  std::vector<std::string_view> keys(2'000, "key");
  const BatchOutcome outcome = client.acquire_batch(keys);
  EXPECT_EQ(outcome.failed, 2'000u - 1'024u);
  EXPECT_EQ(outcome.failure, Failure::connection_lost);
  EXPECT_EQ(outcome.verdicts.front(), Verdict::approved);
  EXPECT_EQ(outcome.verdicts.back(), Verdict::denied);
}

TEST(Client, late_answer_to_a_timed_out_batch_leaves_the_callers_memory_alone) {
  Event gone;
  FakeServer server = serve([&](Peer& peer) {
    peer.write(pong(read(peer).id));
    const Question late = read(peer);
    EXPECT_TRUE(gone.wait());
    peer.write(verdict_for_all(late, approved));
    approve_all(peer);
  });
  Client client = connected(server, {.on_failure = OnFailure::closed});
  std::thread{[&] {
    const std::vector<std::string> texts(100, "key");
    const std::vector<std::string_view> keys{texts.begin(), texts.end()};
    EXPECT_EQ(client.acquire_batch(keys, {.cost = 2, .timeout = sent_before}).failure,
              Failure::timed_out);
  }}.join();
  gone.happen();
  client.ping();
}

TEST(Client, batch_of_keys_or_handles_has_its_window_for_each) {
  FakeServer server = serve([&](Peer& peer) {
    const Question by_key = read(peer);
    EXPECT_EQ(by_key.windows_ms, (std::vector<uint64_t>{60'000, 60'000}));
    peer.write(verdict_for_all(by_key, approved));
    peer.write(interned_from(read(peer), 70));
    const Question by_handle = read(peer);
    EXPECT_EQ(by_handle.windows_ms, (std::vector<uint64_t>{10'000, 10'000}));
    peer.write(test::verdicts(by_handle.id, 2, {approved}));
    peer.at_end();
  });
  Client client{address_of(server)};
  const std::vector<std::string_view> keys{"a", "b"};
  EXPECT_TRUE(client.acquire_batch(keys, {.window_ms = 60'000}).all_approved());
  const auto handles = client.intern(keys);
  EXPECT_TRUE(client.acquire_batch(handles, {.window_ms = 10'000}).all_approved());
}

// ----------------------------------------------------------------------------------------- handles

TEST(Client, handles_outlive_their_connection) {
  std::atomic<int> connections{0};
  FakeServer server = serve([&](Peer& peer) {
    const bool is_first = connections++ == 0;
    if (is_first) peer.write(pong(read(peer).id));
    const Question intern = read(peer);
    EXPECT_EQ(intern.kind, schema::ClientFrame::INTERN);
    EXPECT_EQ(intern.keys, (std::vector<std::string>{"a", "b"}));
    const uint32_t first_number = is_first ? 70 : 500;
    peer.write(interned_from(intern, first_number));
    const Question question = read(peer);
    EXPECT_EQ(question.kind, schema::ClientFrame::ACQUIRE_BY_HANDLE);
    EXPECT_EQ(question.numbers, (std::vector<uint32_t>{first_number + 1, first_number}));
    peer.write(test::verdicts(question.id, 2, {approved, denied}));
    if (!is_first) peer.at_end();
  });
  Client client = connected(server);
  const std::vector<std::string_view> keys{"a", "b", "a"};
  const auto handles = client.intern(keys);
  EXPECT_EQ(handles[0], handles[2]);
  const std::vector<uint32_t> requested{handles[1], handles[0]};
  for (int connection = 0; connection < 2; ++connection) {
    const BatchOutcome outcome = client.acquire_batch(requested);
    EXPECT_EQ(outcome.verdicts, (std::vector<Verdict>{Verdict::approved, Verdict::denied}));
    while (connections < 2) std::this_thread::sleep_for(1ms);  // the first one ended
  }
  EXPECT_EQ(client.intern(keys), handles) << "without a request to the server";
}

TEST(Client, acquires_a_key_without_a_handle_by_its_text) {
  std::atomic<int> connections{0};
  FakeServer server = serve([&](Peer& peer) {
    if (connections++ == 0) {
      peer.write(pong(read(peer).id));
      peer.write(interned_from(read(peer), 1));
      return;
    }
    const Question intern = read(peer);
    peer.write(test::interned(intern.id, {3, no_handle}, {approved, 13}));
    const Question question = read(peer);
    EXPECT_EQ(question.kind, schema::ClientFrame::ACQUIRE);
    EXPECT_EQ(question.keys, (std::vector<std::string>{"a", "b"}));
    peer.write(verdict_for_all(question, approved));
    peer.at_end();
  });
  Client client = connected(server);
  const auto handles = client.intern(std::vector<std::string_view>{"a", "b"});
  while (connections < 2) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(client.acquire_batch(handles).all_approved());
}

TEST(Client, reports_the_key_that_got_no_handle) {
  FakeServer server = serve([](Peer& peer) {
    peer.write(pong(read(peer).id));
    peer.write(test::interned(read(peer).id, {5, no_handle}, {approved, 13}));
    peer.at_end();
  });
  Client client = connected(server);
  try {
    (void)client.intern(std::vector<std::string_view>{"a", "b"});
    FAIL() << "b has none";
  } catch (const NotInterned& fault) {
    EXPECT_NE(fault.handles()[0], no_handle);
    EXPECT_EQ(fault.handles()[1], no_handle);
    EXPECT_EQ(fault.verdicts()[1], Verdict::handles_full);
    EXPECT_NE(std::string{fault.what()}.find("1 of 2 keys"), std::string::npos) << fault.what();
  }
}

// ------------------------------------------------------------------------------------------ shards

TEST(Client, each_shard_has_its_connection_and_its_keys) {
  constexpr uint64_t seed = 99;
  std::mutex mutex;
  std::map<uint32_t, std::vector<std::string>> keys_by_shard;
  FakeServer server{
      [&](Peer& peer) {
        const uint32_t wanted = peer.read().getHello().getWantedShard();
        const uint32_t shard = wanted == 0 ? 0 : wanted - 1;
        peer.write(test::welcome(4, {.own = shard, .count = 3, .routing_seed = seed}));
        for (;;) {
          const Question question = read(peer);
          {
            const std::lock_guard lock{mutex};
            auto& keys = keys_by_shard[shard];
            keys.insert(keys.end(), question.keys.begin(), question.keys.end());
          }
          peer.write(question.kind == schema::ClientFrame::PING
                         ? pong(question.id)
                         : verdict_for_all(question, approved));
        }
      },
      connections_max};
  Client client = connected(server);
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) texts.push_back("key " + std::to_string(i));
  while (client.connections() < 3) std::this_thread::sleep_for(1ms);
  const std::vector<std::string_view> keys{texts.begin(), texts.end()};
  EXPECT_TRUE(client.acquire_batch(keys).all_approved());
  EXPECT_TRUE(client.acquire_batch(keys, {.may_wait = true}).all_approved());
  for (const std::string& key : texts) EXPECT_TRUE(client.acquire(key));
  const std::lock_guard lock{mutex};
  size_t sum = 0;
  for (const auto& [shard, received] : keys_by_shard) {
    sum += received.size();
    for (const std::string& key : received) {
      EXPECT_EQ(sluice::proto::owner_shard(sluice::proto::routing_hash(key, seed), 3), shard);
    }
  }
  EXPECT_EQ(sum, 3 * texts.size());
  EXPECT_EQ(keys_by_shard.size(), 3u);
}

}  // namespace
}  // namespace sluicegate
