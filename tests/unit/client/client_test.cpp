// Goal: each call completes once and with its own answer, also a call that waits in a queue.
// Method: a fake server with a script of the frames that it reads and writes; a test waits for
// events, never for a length of time.
#include "sluicegate/client.hpp"

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

// ----------------------------------------------------------------------------------------- answers

TEST(Client, lone_call_gets_its_answer) {
  FakeServer server = serve([](Peer& peer) {
    const Question question = read(peer);
    EXPECT_EQ(question.keys, std::vector<std::string>{"user:1"});
    EXPECT_TRUE(question.costs.empty());
    peer.write(verdict_for_all(question, denied));
    approve_all(peer);
  });
  Client client{address_of(server)};
  EXPECT_EQ(client.acquire("user:1").verdict, Verdict::denied);
  EXPECT_TRUE(client.acquire("user:1"));
  EXPECT_EQ(client.pending(), 0u);
}

TEST(Client, calls_made_while_frames_are_out_share_a_frame) {
  Event all_called;
  FakeServer server = serve([&](Peer& peer) {
    peer.write(pong(read(peer).id));
    const Question first = read(peer);
    EXPECT_EQ(first.keys.size(), 1u);
    EXPECT_TRUE(all_called.wait());
    peer.write(verdict_for_all(first, approved));
    const Question second = read(peer);
    EXPECT_EQ(second.keys.size(), 9u);
    EXPECT_EQ(second.costs, (std::vector<uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
    std::vector<uint8_t> verdicts;
    for (const uint32_t cost : second.costs) verdicts.push_back(cost % 2 == 0 ? approved : denied);
    peer.write(test::verdicts(second.id, 9, verdicts));
    peer.at_end();
  });
  Client client = connected(server, {.frames_in_flight = 1});
  std::vector<std::future<Outcome>> futures;
  futures.push_back(client.acquire_future("first"));
  for (uint32_t cost = 1; cost <= 9; ++cost) {
    futures.push_back(client.acquire_future("key", {.cost = cost}));
  }
  all_called.happen();
  EXPECT_TRUE(futures[0].get());
  for (uint32_t cost = 1; cost <= 9; ++cost) {
    EXPECT_EQ(futures[cost].get().approved(), cost % 2 == 0) << cost;
  }
}

TEST(Client, calls_with_a_window_and_without_share_a_frame) {
  Event all_called;
  FakeServer server = serve([&](Peer& peer) {
    peer.write(pong(read(peer).id));
    const Question first = read(peer);
    EXPECT_TRUE(first.windows_ms.empty());
    EXPECT_TRUE(all_called.wait());
    peer.write(verdict_for_all(first, approved));
    const Question second = read(peer);
    EXPECT_EQ(second.windows_ms, (std::vector<uint64_t>{keep_window, 60'000}));
    peer.write(verdict_for_all(second, approved));
    peer.at_end();
  });
  Client client = connected(server, {.frames_in_flight = 1});
  std::vector<std::future<Outcome>> futures;
  futures.push_back(client.acquire_future("first"));
  futures.push_back(client.acquire_future("plain"));
  futures.push_back(client.acquire_future("key", {.window_ms = 60'000}));
  all_called.happen();
  for (auto& future : futures) EXPECT_TRUE(future.get());
}

TEST(Client, matches_answers_in_another_order_to_their_calls) {
  FakeServer server = serve([](Peer& peer) {
    peer.write(pong(read(peer).id));
    const Question first = read(peer);
    const Question second = read(peer);
    EXPECT_EQ(second.keys, std::vector<std::string>{"second"});
    peer.write(verdict_for_all(second, denied));
    peer.write(verdict_for_all(first, approved));
    peer.at_end();
  });
  Client client = connected(server, {.frames_in_flight = 2});
  auto first = client.acquire_future("first");
  auto second = client.acquire_future("second");
  EXPECT_EQ(first.get().verdict, Verdict::approved);
  EXPECT_EQ(second.get().verdict, Verdict::denied);
}

TEST(Client, reassembles_frames_that_arrive_in_pieces) {
  FakeServer server = serve([](Peer& peer) {
    for (;;) {
      const Question question = read(peer);
      for (const char byte : verdict_for_all(question, approved)) peer.write({byte});
    }
  });
  Client client{address_of(server)};
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(client.acquire("key"));
}

TEST(Client, refused_frame_throws) {
  FakeServer server = serve([](Peer& peer) {
    const Question question = read(peer);
    peer.write(test::error(question.id, schema::ErrorCode::BAD_COST, "no good"));
    approve_all(peer);
  });
  Client client{address_of(server), {.on_failure = OnFailure::open}};
  try {
    (void)client.acquire("key");
    FAIL() << "the server refused the frame";
  } catch (const Refused& fault) {
    EXPECT_EQ(fault.code(), ErrorCode::bad_cost);
    EXPECT_NE(std::string{fault.what()}.find("no good"), std::string::npos) << fault.what();
  }
  EXPECT_TRUE(client.acquire("key")) << "the connection stays open";
}

TEST(Client, a_release_that_does_not_reach_the_owner_is_an_error) {
  constexpr uint8_t unreached = static_cast<uint8_t>(Verdict::owner_unreachable);
  FakeServer server = serve([](Peer& peer) {
    peer.write(verdict_for_all(read(peer), unreached));
    peer.write(verdict_for_all(read(peer), unreached));
    approve_all(peer);
  });
  Client client{address_of(server)};
  EXPECT_THROW(client.release("key", 3), OwnerUnreachable);
  Event answered;
  Outcome outcome;
  client.release_async("key", 3, [&](Outcome with) {
    outcome = with;
    answered.happen();
  });
  EXPECT_TRUE(answered.wait());
  EXPECT_EQ(outcome.verdict, Verdict::owner_unreachable);
  client.release("key", 3);
}

TEST(Client, other_requests_get_their_answers) {
  FakeServer server = serve([](Peer& peer) {
    peer.write(done(read(peer).id));  // release
    const Question question = read(peer);
    peer.write(test::answer(question.id, [](auto frame) {
      auto inspected = frame.initInspected();
      inspected.setKeys(kj::StringPtr{"key"}.asBytes());
      inspected.initKeySizes(1).set(0, 3);
      inspected.initWindowMs(1).set(0, 1000);
      inspected.initMaxRequests(1).set(0, 7);
      inspected.initMaxRequestsInQueue(1).set(0, 8);
      inspected.initApproved(1).set(0, 3);
      inspected.initDenied(1).set(0, 2);
      inspected.initWaiting(1).set(0, 1);
      inspected.initResetMs(1).set(0, 500);
    }));
    peer.write(test::answer(read(peer).id, [](auto frame) { frame.initInspected(); }));
    approve_all(peer);
  });
  Client client{address_of(server)};
  client.release("key", 3);
  const auto state = client.inspect("key");
  ASSERT_TRUE(state);
  EXPECT_EQ(state->key, "key");
  EXPECT_EQ(state->max_requests, 7u);
  EXPECT_EQ(state->waiting, 1u);
  EXPECT_FALSE(client.inspect("unknown"));
  client.ping();
}

TEST(Client, all_keys_are_inspected_page_by_page) {
  FakeServer server = serve([](Peer& peer) {
    for (uint64_t page = 0; page < 3; ++page) {
      const auto frame = peer.read();
      EXPECT_EQ(frame.getInspect().getKey().size(), 0u);
      EXPECT_EQ(frame.getInspect().getCursor(), page == 0 ? 0 : 100 + page);
      const std::string key = "key " + std::to_string(page);
      peer.write(test::answer(frame.getId(), [&](auto to) {
        auto inspected = to.initInspected();
        inspected.setKeys(kj::StringPtr{key.c_str()}.asBytes());
        inspected.initKeySizes(1).set(0, static_cast<uint16_t>(key.size()));
        inspected.initWindowMs(1).set(0, 1000);
        inspected.initMaxRequests(1).set(0, static_cast<uint32_t>(page));
        inspected.initMaxRequestsInQueue(1);
        inspected.initApproved(1);
        inspected.initDenied(1);
        inspected.initWaiting(1);
        inspected.initResetMs(1);
        inspected.setCursor(page < 2 ? 101 + page : 0);
      }));
    }
    approve_all(peer);
  });
  Client client{address_of(server)};
  const auto all = client.inspect_all();
  ASSERT_EQ(all.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all[i].key, "key " + std::to_string(i));
    EXPECT_EQ(all[i].max_requests, i);
  }
}

TEST(Client, calls_from_many_threads_get_their_own_answers) {
  FakeServer server = serve([](Peer& peer) {
    for (;;) {  // approves even costs
      const Question question = read(peer);
      std::vector<uint8_t> verdicts;
      for (size_t i = 0; i < question.keys.size(); ++i) {
        const uint32_t cost = question.costs.empty() ? 1 : question.costs[i];
        verdicts.push_back(cost % 2 == 0 ? approved : denied);
      }
      peer.write(test::verdicts(question.id, static_cast<unsigned>(verdicts.size()), verdicts));
    }
  });
  Client client{address_of(server)};
  std::atomic<int> callbacks{0};
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint32_t i = 0; i < 200; ++i) {
        const uint32_t cost = 1 + (thread + i) % 7;
        EXPECT_EQ(client.acquire("key", {.cost = cost}).approved(), cost % 2 == 0);
        client.acquire_async("key",
                             [&callbacks, cost](const Outcome& outcome) {
                               EXPECT_EQ(outcome.approved(), cost % 2 == 0);
                               ++callbacks;
                             },
                             {.cost = cost});
      }
    });
  }
  for (std::thread& each : threads) each.join();
  while (callbacks < 1'600) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(client.pending(), 0u);
}

TEST(Client, very_long_timeout_is_no_timeout) {
  FakeServer server = serve(approve_all);
  Client client = connected(server);
  EXPECT_TRUE(client.acquire("key", {.timeout = std::chrono::milliseconds::max()}));
}

// ----------------------------------------------------------------------------------------- waiting

TEST(Client, waits_in_the_queue_and_is_granted) {
  FakeServer server = serve([](Peer& peer) {
    const Question question = read(peer);
    EXPECT_EQ(question.wait_limit_ms, 30'000u);
    peer.write(verdict_for_all(question, queued));
    peer.write(test::granted(question.id, {0}, {approved}));
    approve_all(peer);
  });
  Client client{address_of(server)};
  EXPECT_TRUE(client.acquire("key", {.may_wait = true, .wait_limit_ms = 30'000}));
  EXPECT_EQ(client.pending(), 0u);
}

TEST(Client, queued_call_does_not_block_other_calls) {
  Event granted;
  FakeServer server = serve([&](Peer& peer) {
    const Question waiting = read(peer);
    peer.write(verdict_for_all(waiting, queued));
    for (int i = 0; i < 10; ++i) peer.write(verdict_for_all(read(peer), approved));
    EXPECT_TRUE(granted.wait());
    peer.write(test::granted(waiting.id, {0}, {approved}));
    approve_all(peer);
  });
  Client client{address_of(server)};
  std::thread waiter{[&] { EXPECT_TRUE(client.acquire("queue", {.may_wait = true})); }};
  while (client.pending() == 0) std::this_thread::yield();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(client.acquire("other"));
  granted.happen();
  waiter.join();
}

TEST(Client, cancelled_wait_is_withdrawn) {
  Event is_queued;
  FakeServer server = serve([&](Peer& peer) {
    const Question waiting = read(peer);
    peer.write(verdict_for_all(waiting, queued));
    is_queued.happen();
    const Question question = read(peer);
    EXPECT_EQ(question.kind, schema::ClientFrame::WITHDRAW);
    EXPECT_EQ(question.target, waiting.id);
    EXPECT_EQ(question.numbers, std::vector<uint32_t>{0});
    peer.write(test::granted(waiting.id, {0}, {withdrawn}));
    peer.write(done(question.id));
    peer.at_end();
  });
  Client client{address_of(server)};
  Outcomes outcomes;
  const Ticket ticket = client.acquire_async("key", outcomes.next(), {.may_wait = true});
  EXPECT_TRUE(is_queued.wait());
  client.cancel(ticket);
  client.cancel(ticket);
  const auto all = outcomes.wait_for(1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].verdict, Verdict::withdrawn);
  EXPECT_EQ(all[0].failure, Failure::none);
}

TEST(Client, stop_token_ends_a_blocking_wait) {
  std::stop_source stop;
  FakeServer server = serve([&](Peer& peer) {
    const Question waiting = read(peer);
    stop.request_stop();  // before the server queues it: the client withdraws it then
    peer.write(verdict_for_all(waiting, queued));
    const Question question = read(peer);
    EXPECT_EQ(question.kind, schema::ClientFrame::WITHDRAW);
    peer.write(done(question.id));
    peer.write(test::granted(waiting.id, {0}, {withdrawn}));
    peer.at_end();
  });
  Client client{address_of(server)};
  const Outcome outcome = client.acquire("key", {.may_wait = true}, stop.get_token());
  EXPECT_EQ(outcome.verdict, Verdict::withdrawn);
}

// Grants a permit after the withdrawal, and expects its release.
FakeServer::Script grants_late(Event& released) {
  return [&released](Peer& peer) {
    peer.write(pong(read(peer).id));
    const Question waiting = read(peer);
    peer.write(verdict_for_all(waiting, queued));
    const Question question = read(peer);
    EXPECT_EQ(question.kind, schema::ClientFrame::WITHDRAW);
    EXPECT_EQ(question.target, waiting.id);
    peer.write(test::granted(waiting.id, {0}, {approved}));
    peer.write(done(question.id));
    const Question release = read(peer);
    EXPECT_EQ(release.kind, schema::ClientFrame::RELEASE);
    EXPECT_EQ(release.keys, std::vector<std::string>{"queue"});
    EXPECT_EQ(release.costs, std::vector<uint32_t>{5});
    peer.write(done(release.id));
    released.happen();
    approve_all(peer);
  };
}

TEST(Client, withdraws_a_timed_out_wait_and_releases_its_late_grant) {
  Event released;
  FakeServer server = serve(grants_late(released));
  Client client = connected(server);
  const auto outcome = client.acquire("queue", {.cost = 5, .may_wait = true, .timeout = 2s});
  EXPECT_EQ(outcome.verdict, Verdict::wait_limit);
  EXPECT_EQ(outcome.failure, Failure::none);
  EXPECT_TRUE(released.wait());
  EXPECT_TRUE(client.acquire("after"));
}

TEST(Client, withdraws_a_timed_out_wait_of_a_callback_and_releases_its_late_grant) {
  Event released;
  FakeServer server = serve(grants_late(released));
  Client client = connected(server);
  auto future = client.acquire_future("queue", {.cost = 5, .may_wait = true, .timeout = 2s});
  EXPECT_EQ(future.get().verdict, Verdict::wait_limit);
  EXPECT_TRUE(released.wait());
  EXPECT_TRUE(client.acquire("after"));
}

// ------------------------------------------------------------------------------ callbacks and ends

TEST(Client, callback_may_call_but_not_block) {
  FakeServer server = serve(approve_all);
  Client client{address_of(server)};
  Outcomes outcomes;
  std::atomic<int> threw{0};
  const auto try_to = [&threw](const auto& call) {
    try {
      call();
    } catch (const std::logic_error&) {
      ++threw;
    }
  };
  client.acquire_async("key", [&](const Outcome&) {
    try_to([&] { (void)client.acquire("key"); });
    try_to([&] { client.close(); });
    client.acquire_async("key", outcomes.next());
  });
  EXPECT_EQ(outcomes.wait_for(1).size(), 1u);
  EXPECT_EQ(threw, 2);
}

TEST(Client, close_completes_every_call_once) {
  Event is_queued;
  FakeServer server = serve([&](Peer& peer) {
    peer.write(pong(read(peer).id));
    peer.write(verdict_for_all(read(peer), queued));
    is_queued.happen();
    answer_nothing(peer);
  });
  Client client = connected(server, {.on_failure = OnFailure::closed, .frames_in_flight = 1});
  Outcomes outcomes;
  client.acquire_async("in the queue", outcomes.next(), {.may_wait = true});
  EXPECT_TRUE(is_queued.wait());
  client.acquire_async("in flight", outcomes.next());
  client.acquire_async("staged", outcomes.next());
  std::thread blocked{[&] { EXPECT_EQ(client.acquire("blocked").failure, Failure::closed); }};
  wait_until_pending(client, 4);
  client.close();
  blocked.join();
  const auto all = outcomes.wait_for(3);
  ASSERT_EQ(all.size(), 3u);
  for (const Outcome& outcome : all) EXPECT_EQ(outcome.failure, Failure::closed);
  EXPECT_EQ(client.acquire("later").failure, Failure::closed);
  EXPECT_EQ(client.pending(), 0u);
}

TEST(Client, close_does_not_wait_for_a_silent_server) {
  Event has_connected;
  FakeServer server{[&](Peer& peer) {
                      peer.read();
                      has_connected.happen();
                      peer.at_end();
                    },
                    1};
  Client client{address_of(server), {.connect_timeout = 1h}};
  auto future = client.acquire_future("key");
  EXPECT_TRUE(has_connected.wait());
  client.close();  // an hour, if it did
  EXPECT_EQ(future.get().failure, Failure::closed);
}

TEST(Client, closed_client_refuses_calls_of_new_threads) {
  FakeServer server = serve(approve_all);
  Client client = connected(server);
  client.close();
  EXPECT_EQ(client.connections(), 0u);
  std::thread{[&] { EXPECT_THROW((void)client.acquire("key"), Closed); }}.join();
}

TEST(Client, destruction_completes_every_call) {
  FakeServer server = serve(answer_nothing);
  std::future<Outcome> future;
  {
    Client client{address_of(server)};
    future = client.acquire_future("key");
  }
  EXPECT_EQ(future.get().failure, Failure::closed);
}

}  // namespace
}  // namespace sluicegate
