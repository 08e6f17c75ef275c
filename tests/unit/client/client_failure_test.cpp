// Goal: each call completes once, whatever happens to the connection and the server.
// Method: a fake server with a script of the frames that it reads and writes; a test waits for
// events, never for a length of time.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "client_scripts.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using namespace test;

// ------------------------------------------------------------------------------------------ losses

// A server that receives a call and closes the connection instead of answering.
FakeServer closing_after_a_call(std::atomic<int>& connections) {
  return serve([&connections](Peer& peer) {
    if (connections++ > 0) return approve_all(peer);
    peer.write(pong(read(peer).id));
    read(peer);
  });
}

TEST(Client, lost_connection_throws_and_the_next_call_reconnects) {
  std::atomic<int> connections{0};
  FakeServer server = closing_after_a_call(connections);
  Client client = connected(server);
  EXPECT_THROW((void)client.acquire("key"), ConnectionLost);
  EXPECT_TRUE(client.acquire("key"));
  EXPECT_EQ(connections, 2);
}

TEST(Client, failure_policy_decides_the_outcome_of_a_loss) {
  const std::map<OnFailure, Verdict> meanings{{OnFailure::error, Verdict::none},
                                              {OnFailure::open, Verdict::approved},
                                              {OnFailure::closed, Verdict::denied}};
  for (const auto& [policy, verdict] : meanings) {
    std::atomic<int> connections{0};
    FakeServer server = closing_after_a_call(connections);
    Client client = connected(server, {.on_failure = policy});
    const Outcome outcome = client.acquire_future("key").get();
    EXPECT_EQ(outcome.verdict, verdict);
    EXPECT_EQ(outcome.failure, Failure::connection_lost);
  }
}

TEST(Client, sends_nothing_a_second_time) {
  std::atomic<int> connections{0};
  Event is_lost;
  FakeServer server = serve([&](Peer& peer) {
    if (connections++ == 0) {
      peer.write(pong(read(peer).id));
      read(peer);
      return;
    }
    EXPECT_EQ(read(peer).keys, std::vector<std::string>{"new"});
    is_lost.happen();
  });
  Client client = connected(server, {.on_failure = OnFailure::closed});
  (void)client.acquire("old");
  (void)client.acquire("new");
  EXPECT_TRUE(is_lost.wait());
}

TEST(Client, requeue_sends_open_calls_again) {
  std::atomic<int> connections{0};
  Event all_called;
  FakeServer server = serve([&](Peer& peer) {
    if (connections++ == 0) {
      peer.write(pong(read(peer).id));
      const Question plug = read(peer);
      EXPECT_TRUE(all_called.wait());
      peer.write(verdict_for_all(plug, approved));
      const Question question = read(peer);
      EXPECT_EQ(question.keys, (std::vector<std::string>{"a", "b", "c"}));
      peer.write(test::verdicts(question.id, 3, {queued, approved, queued}));
      return;
    }
    const Question again = read(peer);
    EXPECT_EQ(again.keys, (std::vector<std::string>{"a", "c"})) << "b was answered";
    EXPECT_EQ(again.costs, (std::vector<uint32_t>{1, 3}));
    peer.write(test::verdicts(again.id, 2, {queued, denied}));
    peer.write(test::granted(again.id, {0}, {approved}));
    approve_all(peer);
  });
  Client client = connected(server, {.requeue = true, .frames_in_flight = 1});
  auto plug = client.acquire_future("plug");
  auto a = client.acquire_future("a", {.cost = 1, .may_wait = true});
  auto b = client.acquire_future("b", {.cost = 2, .may_wait = true});
  auto c = client.acquire_future("c", {.cost = 3, .may_wait = true});
  all_called.happen();
  EXPECT_TRUE(plug.get());
  EXPECT_TRUE(a.get());
  EXPECT_TRUE(b.get());
  EXPECT_EQ(c.get().verdict, Verdict::denied);
}

TEST(Client, requeue_does_not_repeat_answered_calls) {
  Event staged, answered;
  std::atomic<int> connections{0};
  FakeServer server = serve([&](Peer& peer) {
    if (connections++ > 0) return approve_all(peer);
    peer.write(pong(read(peer).id));
    const Question first = read(peer);
    EXPECT_TRUE(staged.wait());
    peer.write(verdict_for_all(first, approved));
    const Question second = read(peer);
    EXPECT_EQ(second.keys.size(), 2u);
    peer.write(test::verdicts(second.id, 2, {approved, queued}));
    EXPECT_TRUE(answered.wait());
  });
  Client client = connected(server, {.requeue = true, .frames_in_flight = 1});
  auto first = client.acquire_future("first", {.may_wait = true});
  std::thread a{[&] { (void)client.acquire("a", {.may_wait = true}); }};
  wait_until_pending(client, 2);
  auto b = client.acquire_future("b", {.may_wait = true});
  staged.happen();
  a.join();
  answered.happen();
  EXPECT_TRUE(b.get());
}

TEST(Client, idle_connection_that_ends_costs_no_call) {
  std::atomic<int> connections{0};
  FakeServer server = serve([&](Peer& peer) {
    if (connections++ > 0) return approve_all(peer);
    peer.write(pong(read(peer).id));
  });
  Client client = connected(server);
  while (connections < 2) std::this_thread::sleep_for(1ms);  // no call detects the loss
  EXPECT_TRUE(client.acquire("key"));
}

TEST(Client, completes_calls_staged_for_a_removed_shard) {
  std::atomic<int> connections{0};
  Event greet;
  std::promise<void> drop;
  const std::shared_future<void> is_dropped = drop.get_future().share();
  FakeServer server{[&](Peer& peer) {
                      const uint32_t wanted = peer.read().getHello().getWantedShard();
                      if (connections++ < 2) {
                        const uint32_t shard = wanted == 0 ? 0 : wanted - 1;
                        peer.write(test::welcome(4, {.own = shard, .count = 2, .routing_seed = 7}));
                        is_dropped.wait();
                        return;
                      }
                      EXPECT_TRUE(greet.wait());
                      peer.write(test::welcome(4, {.own = 0, .count = 1, .routing_seed = 7}));
                      approve_all(peer);
                    },
                    connections_max};
  Client client{address_of(server), quick()};
  while (client.connections() < 2) std::this_thread::sleep_for(1ms);
  drop.set_value();
  while (client.connections() > 0 || connections < 3) std::this_thread::sleep_for(1ms);
  std::vector<std::future<Outcome>> futures;
  for (int i = 0; i < 20; ++i) {
    futures.push_back(client.acquire_future("key " + std::to_string(i), {.may_wait = true}));
  }
  greet.happen();
  for (auto& each : futures) {
    ASSERT_EQ(each.wait_for(60s), std::future_status::ready) << "a call did not end";
  }
}

// ---------------------------------------------------------------- no server, or one that is silent

TEST(Client, reports_why_the_server_is_unreachable) {
  uint16_t free_port = 0;
  {
    free_port = FakeServer{[](Peer&) {}}.port();
  }
  Client client{"127.0.0.1:" + std::to_string(free_port), quick()};
  try {
    (void)client.acquire("key");
    FAIL() << "no server could have answered";
  } catch (const ConnectionLost& fault) {
    EXPECT_NE(std::string{fault.what()}.find("Connection refused"), std::string::npos)
        << fault.what();
  }
}

TEST(Client, intern_throws_without_a_server) {
  uint16_t free_port = 0;
  {
    free_port = FakeServer{[](Peer&) {}}.port();
  }
  Client client{"127.0.0.1:" + std::to_string(free_port), quick()};
  EXPECT_THROW((void)client.intern(std::vector<std::string_view>{"a"}), ConnectionLost);
}

TEST(Client, server_of_another_version_is_unreachable) {
  FakeServer server{
      [](Peer& peer) {
        peer.read();
        peer.write(test::answer(0, [](auto frame) { frame.initWelcome().setVersion(9); }));
        peer.at_end();
      },
      connections_max};
  Client client{address_of(server), quick({.on_failure = OnFailure::closed})};
  EXPECT_EQ(client.acquire("key").failure, Failure::unreachable);
}

TEST(Client, server_that_sends_no_welcome_is_unreachable) {
  FakeServer server{[](Peer& peer) { peer.at_end(); }, connections_max};
  Client client{address_of(server),
                quick({.on_failure = OnFailure::closed, .connect_timeout = 50ms})};
  EXPECT_EQ(client.acquire("key").failure, Failure::unreachable);
}

TEST(Client, call_to_a_hanging_server_times_out) {
  FakeServer server = serve(answer_nothing);
  Client client{address_of(server)};
  EXPECT_THROW((void)client.acquire("key", {.timeout = 50ms}), TimedOut);
  EXPECT_EQ(client.acquire_future("key", {.timeout = 50ms}).get().failure, Failure::timed_out);
  const std::vector<std::string_view> keys{"a", "b"};
  try {
    (void)client.acquire_batch(keys, {.timeout = 50ms});
    FAIL() << "the server has not answered";
  } catch (const Incomplete& fault) {
    EXPECT_EQ(fault.outcome().failed, 2u);
    EXPECT_EQ(fault.outcome().failure, Failure::timed_out);
  }
}

TEST(Client, releases_a_permit_approved_after_the_time_out) {
  Event timed_out;
  Event released;
  FakeServer server = serve([&](Peer& peer) {
    peer.write(pong(read(peer).id));
    const Question question = read(peer);
    EXPECT_TRUE(timed_out.wait());
    peer.write(verdict_for_all(question, approved));
    const Question release = read(peer);
    EXPECT_EQ(release.kind, schema::ClientFrame::RELEASE);
    EXPECT_EQ(release.keys, std::vector<std::string>{"key"});
    released.happen();
  });
  Client client = connected(server);  // a call that timed out before it was sent would not be sent
  EXPECT_THROW((void)client.acquire("key", {.timeout = sent_before}), TimedOut);
  timed_out.happen();
  EXPECT_TRUE(released.wait());
}

// ------------------------------------------------------------ servers that misbehave, or shut down

TEST(Client, answer_to_an_unknown_frame_ends_the_connection) {
  std::atomic<int> connections{0};
  FakeServer server = serve([&](Peer& peer) {
    if (connections++ > 0) return approve_all(peer);
    const Question question = read(peer);
    peer.write(test::verdicts(question.id + 1, 1, {approved}));
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  EXPECT_THROW((void)client.acquire("key"), ConnectionLost);
  EXPECT_TRUE(client.acquire("key"));
}

TEST(Client, answer_of_a_wrong_length_ends_the_connection) {
  std::atomic<int> connections{0};
  FakeServer server = serve([&](Peer& peer) {
    if (connections++ > 0) return approve_all(peer);
    peer.write(test::verdicts(read(peer).id, 2, {approved}));
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  EXPECT_THROW((void)client.acquire("key"), ConnectionLost);
  EXPECT_TRUE(client.acquire("key"));
}

TEST(Client, partly_valid_answer_completes_every_call) {
  Event staged;
  std::atomic<int> connections{0};
  FakeServer server = serve([&](Peer& peer) {
    if (connections++ > 0) return approve_all(peer);
    peer.write(pong(read(peer).id));
    const Question first = read(peer);
    EXPECT_TRUE(staged.wait());
    peer.write(verdict_for_all(first, approved));
    const Question second = read(peer);
    EXPECT_EQ(second.keys.size(), 2u);
    peer.write(test::verdicts(second.id, 2, {approved, queued}));  // neither call may wait
    peer.at_end();
  });
  Client client = connected(server, {.frames_in_flight = 1});
  Outcomes outcomes;
  client.acquire_async("first", outcomes.next());
  auto a = client.acquire_future("a");
  auto b = client.acquire_future("b");
  staged.happen();
  EXPECT_TRUE(a.get());
  EXPECT_EQ(b.get().failure, Failure::connection_lost);
}

TEST(Client, backs_off_from_a_server_that_drops_connections_after_welcome) {
  std::atomic<int> connections{0};
  FakeServer server{[&](Peer& peer) {
                      peer.read();
                      ++connections;
                      peer.write(test::welcome());
                    },
                    100'000};
  const auto begin = std::chrono::steady_clock::now();
  Client client{address_of(server), {.backoff_first = 40ms}};
  while (connections < 6) std::this_thread::sleep_for(1ms);
  // At least half of 40 + 80 + 160 + 320 + 640 ms.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 620ms);
}

TEST(Client, draining_is_a_failure_and_no_denial) {
  FakeServer server = serve([](Peer& peer) {
    peer.write(verdict_for_all(read(peer), draining));
    peer.write(verdict_for_all(read(peer), draining));
    peer.at_end();
  });
  Client client{address_of(server), {.on_failure = OnFailure::open}};
  const Outcome outcome = client.acquire("key");
  EXPECT_EQ(outcome.verdict, Verdict::approved);
  EXPECT_EQ(outcome.failure, Failure::draining);
  const std::vector<std::string_view> keys{"a", "b"};
  const BatchOutcome batch = client.acquire_batch(keys);
  EXPECT_TRUE(batch.all_approved());
  EXPECT_EQ(batch.failed, 2u);
}

TEST(Client, calls_after_go_away_fail_at_once) {
  std::atomic<int> connections{0};
  Event go_on;
  FakeServer server = serve([&](Peer& peer) {
    if (connections++ > 0) return approve_all(peer);
    const Question question = read(peer);
    peer.write(test::answer(0, [](auto frame) { frame.initGoAway().setReason("bye"); }));
    peer.write(verdict_for_all(question, approved));
    EXPECT_TRUE(go_on.wait());
  });
  Client client{address_of(server), quick({.on_failure = OnFailure::closed})};
  EXPECT_EQ(client.acquire("key").failure, Failure::none) << "sent before, so it is answered";
  EXPECT_EQ(client.acquire("key").failure, Failure::draining);
  go_on.happen();
  while (client.acquire("key").failure != Failure::none) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(connections, 2);
}

}  // namespace
}  // namespace sluicegate
