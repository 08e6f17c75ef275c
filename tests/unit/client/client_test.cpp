// Goal: each call completes once, with the answer that is its own, whatever the server does.
// Method: a fake server whose script says frame by frame what it reads and what it writes; what a
// test waits for are events, never a length of time.
#include "sluicegate/client.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_server.hpp"
#include "proto/key_hash.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using test::FakeServer;
using test::Peer;
namespace schema = sluice::schema;

constexpr uint8_t approved = 1, denied = 2, queued = 3, withdrawn = 11, draining = 12;
constexpr int connections_max = 100;

// A script that is welcomed, for any number of connections.
FakeServer serve(FakeServer::Script script) {
  return FakeServer{FakeServer::welcoming(std::move(script)), connections_max};
}

std::string address_of(const FakeServer& server) {
  return "127.0.0.1:" + std::to_string(server.port());
}

// A client that comes back fast.
ClientOptions quick(ClientOptions options = {}) {
  options.backoff_first = 1ms;
  options.backoff_longest = 5ms;
  return options;
}

// One that has its connection: the script answers its Ping first.
Client connected(const FakeServer& server, ClientOptions options = {}) {
  Client client{address_of(server), quick(std::move(options))};
  client.ping();
  return client;
}

// What an Acquire or Release asks, out of the frame's lifetime.
struct Question {
  uint64_t id = 0;
  schema::ClientFrame::Which kind{};
  std::vector<std::string> keys;
  std::vector<uint32_t> numbers;  // handles, or the entries of a Withdraw
  std::vector<uint32_t> costs;
  uint64_t target = 0;
  uint32_t wait_limit_ms = 0;
};

template <typename Keyed>
void read_keys(Keyed keyed, Question& question) {
  const auto bytes = keyed.getKeys().asChars();
  size_t at = 0;
  for (const uint16_t size : keyed.getKeySizes()) {
    question.keys.emplace_back(bytes.begin() + at, size);
    at += size;
  }
}

Question read(Peer& peer) {
  const auto frame = peer.read();
  Question question{.id = frame.getId(), .kind = frame.which()};
  if (frame.isAcquire()) {
    read_keys(frame.getAcquire(), question);
    for (const uint32_t cost : frame.getAcquire().getCosts()) question.costs.push_back(cost);
    question.wait_limit_ms = frame.getAcquire().getWaitLimitMs();
  } else if (frame.isRelease()) {
    read_keys(frame.getRelease(), question);
    for (const uint32_t cost : frame.getRelease().getCosts()) question.costs.push_back(cost);
  } else if (frame.isIntern()) {
    read_keys(frame.getIntern(), question);
  } else if (frame.isAcquireByHandle()) {
    for (const uint32_t handle : frame.getAcquireByHandle().getHandles()) {
      question.numbers.push_back(handle);
    }
  } else if (frame.isWithdraw()) {
    question.target = frame.getWithdraw().getTarget();
    for (const uint32_t entry : frame.getWithdraw().getEntries()) question.numbers.push_back(entry);
  }
  return question;
}

std::string done(uint64_t id) {
  return test::answer(id, [](auto frame) { frame.setDone(); });
}

std::string pong(uint64_t id) {
  return test::answer(id, [](auto frame) { frame.setPong(); });
}

std::string verdict_for_all(const Question& question, uint8_t verdict) {
  const size_t count = question.keys.size() + question.numbers.size();
  return test::verdicts(question.id, static_cast<unsigned>(count), {verdict});
}

// Approves whatever it is asked until the client goes.
void approve_all(Peer& peer) {
  for (;;) {
    const Question question = read(peer);
    if (question.kind == schema::ClientFrame::PING) {
      peer.write(pong(question.id));
    } else if (question.kind == schema::ClientFrame::RELEASE) {
      peer.write(done(question.id));
    } else {
      peer.write(verdict_for_all(question, approved));
    }
  }
}

void answer_nothing(Peer& peer) {
  for (;;) read(peer);
}

// Outcomes as callbacks bring them.
class Outcomes {
 public:
  Client::Callback next() {
    return [this](const Outcome& outcome) {
      const std::lock_guard lock{mutex_};
      all_.push_back(outcome);
      changed_.notify_all();
    };
  }
  std::vector<Outcome> wait_for(size_t count) {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, 60s, [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Outcome> all_;
};

// An event that one thread waits for and another brings about.
class Event {
 public:
  void happen() { promise_.set_value(); }
  bool wait() { return future_.wait_for(60s) == std::future_status::ready; }

 private:
  std::promise<void> promise_;
  std::future<void> future_ = promise_.get_future();
};

void wait_until_pending(const Client& client, size_t count) {
  while (client.pending() != count) std::this_thread::sleep_for(1ms);
}

// --------------------------------------------------------------------------------- answers

TEST(Client, lone_call_has_its_answer) {
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

TEST(Client, calls_made_meanwhile_travel_together) {
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

TEST(Client, answers_in_another_order_find_their_calls) {
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

TEST(Client, frames_that_come_in_pieces_are_put_together) {
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
    client.acquire("key");
    FAIL() << "it was refused";
  } catch (const Refused& fault) {
    EXPECT_EQ(fault.code(), ErrorCode::bad_cost);
    EXPECT_NE(std::string{fault.what()}.find("no good"), std::string::npos) << fault.what();
  }
  EXPECT_TRUE(client.acquire("key")) << "the connection goes on";
}

TEST(Client, other_questions_have_their_answers) {
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

// ------------------------------------------------------------------------------ waiting

TEST(Client, waits_in_line_and_is_granted) {
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

TEST(Client, who_waits_in_line_does_not_hold_up_others) {
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
  std::thread waiter{[&] { EXPECT_TRUE(client.acquire("line", {.may_wait = true})); }};
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
    stop.request_stop();  // before it stands in line: it is withdrawn as soon as it does
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

// The permit that comes too late goes back.
FakeServer::Script grants_late(Event& given_back) {
  return [&given_back](Peer& peer) {
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
    EXPECT_EQ(release.keys, std::vector<std::string>{"line"});
    EXPECT_EQ(release.costs, std::vector<uint32_t>{5});
    peer.write(done(release.id));
    given_back.happen();
    approve_all(peer);
  };
}

TEST(Client, timed_out_wait_is_withdrawn_and_its_late_grant_given_back) {
  Event given_back;
  FakeServer server = serve(grants_late(given_back));
  Client client = connected(server);
  const auto outcome = client.acquire("line", {.cost = 5, .may_wait = true, .timeout = 2s});
  EXPECT_EQ(outcome.verdict, Verdict::wait_limit);
  EXPECT_EQ(outcome.failure, Failure::none);
  EXPECT_TRUE(given_back.wait());
  EXPECT_TRUE(client.acquire("after"));
}

TEST(Client, callback_that_times_out_in_line_is_withdrawn_likewise) {
  Event given_back;
  FakeServer server = serve(grants_late(given_back));
  Client client = connected(server);
  auto future = client.acquire_future("line", {.cost = 5, .may_wait = true, .timeout = 2s});
  EXPECT_EQ(future.get().verdict, Verdict::wait_limit);
  EXPECT_TRUE(given_back.wait());
  EXPECT_TRUE(client.acquire("after"));
}

// ---------------------------------------------------------------------------- failures

// A server that takes a call and closes the connection instead of an answer.
FakeServer hanging_up(std::atomic<int>& connections) {
  return serve([&connections](Peer& peer) {
    if (connections++ > 0) return approve_all(peer);
    peer.write(pong(read(peer).id));
    read(peer);
  });
}

TEST(Client, lost_connection_throws_and_the_next_call_has_another) {
  std::atomic<int> connections{0};
  FakeServer server = hanging_up(connections);
  Client client = connected(server);
  EXPECT_THROW(client.acquire("key"), ConnectionLost);
  EXPECT_TRUE(client.acquire("key"));
  EXPECT_EQ(connections, 2);
}

TEST(Client, policy_says_what_a_loss_means) {
  const std::map<OnFailure, Verdict> meanings{{OnFailure::error, Verdict::none},
                                              {OnFailure::open, Verdict::approved},
                                              {OnFailure::closed, Verdict::denied}};
  for (const auto& [policy, verdict] : meanings) {
    std::atomic<int> connections{0};
    FakeServer server = hanging_up(connections);
    Client client = connected(server, {.on_failure = policy});
    const Outcome outcome = client.acquire_future("key").get();
    EXPECT_EQ(outcome.verdict, verdict);
    EXPECT_EQ(outcome.failure, Failure::connection_lost);
  }
}

TEST(Client, nothing_is_sent_a_second_time) {
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
  client.acquire("old");
  client.acquire("new");
  EXPECT_TRUE(is_lost.wait());
}

TEST(Client, requeue_sends_again_what_was_open) {
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
    EXPECT_EQ(again.keys, (std::vector<std::string>{"a", "c"})) << "b has its answer";
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

TEST(Client, no_server_is_told_by_its_cause) {
  uint16_t free_port = 0;
  {
    free_port = FakeServer{[](Peer&) {}}.port();
  }
  Client client{"127.0.0.1:" + std::to_string(free_port), quick()};
  try {
    client.acquire("key");
    FAIL() << "nobody could have answered";
  } catch (const ConnectionLost& fault) {
    EXPECT_NE(std::string{fault.what()}.find("Connection refused"), std::string::npos)
        << fault.what();
  }
}

TEST(Client, nothing_is_interned_without_a_server) {
  uint16_t free_port = 0;
  {
    free_port = FakeServer{[](Peer&) {}}.port();
  }
  Client client{"127.0.0.1:" + std::to_string(free_port), quick()};
  EXPECT_THROW(client.intern(std::vector<std::string_view>{"a"}), ConnectionLost);
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

TEST(Client, server_that_does_not_greet_is_unreachable) {
  FakeServer server{[](Peer& peer) { peer.at_end(); }, connections_max};
  Client client{address_of(server),
                quick({.on_failure = OnFailure::closed, .connect_timeout = 50ms})};
  EXPECT_EQ(client.acquire("key").failure, Failure::unreachable);
}

TEST(Client, server_that_hangs_is_given_up_by_the_time_out) {
  FakeServer server = serve(answer_nothing);
  Client client{address_of(server)};
  EXPECT_THROW(client.acquire("key", {.timeout = 50ms}), TimedOut);
  EXPECT_EQ(client.acquire_future("key", {.timeout = 50ms}).get().failure, Failure::timed_out);
  const std::vector<std::string_view> keys{"a", "b"};
  try {
    client.acquire_batch(keys, {.timeout = 50ms});
    FAIL() << "nobody has answered";
  } catch (const Incomplete& fault) {
    EXPECT_EQ(fault.outcome().failed, 2u);
    EXPECT_EQ(fault.outcome().failure, Failure::timed_out);
  }
}

TEST(Client, approval_after_the_time_out_is_given_back) {
  Event timed_out;
  Event given_back;
  FakeServer server = serve([&](Peer& peer) {
    peer.write(pong(read(peer).id));
    const Question question = read(peer);
    EXPECT_TRUE(timed_out.wait());
    peer.write(verdict_for_all(question, approved));
    const Question release = read(peer);
    EXPECT_EQ(release.kind, schema::ClientFrame::RELEASE);
    EXPECT_EQ(release.keys, std::vector<std::string>{"key"});
    given_back.happen();
  });
  Client client = connected(server);  // what is not sent in time is not sent at all
  EXPECT_THROW(client.acquire("key", {.timeout = 50ms}), TimedOut);
  timed_out.happen();
  EXPECT_TRUE(given_back.wait());
}

TEST(Client, answer_to_nothing_ends_the_connection) {
  std::atomic<int> connections{0};
  FakeServer server = serve([&](Peer& peer) {
    if (connections++ > 0) return approve_all(peer);
    const Question question = read(peer);
    peer.write(test::verdicts(question.id + 1, 1, {approved}));
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  EXPECT_THROW(client.acquire("key"), ConnectionLost);
  EXPECT_TRUE(client.acquire("key"));
}

TEST(Client, answer_of_another_length_ends_the_connection) {
  std::atomic<int> connections{0};
  FakeServer server = serve([&](Peer& peer) {
    if (connections++ > 0) return approve_all(peer);
    peer.write(test::verdicts(read(peer).id, 2, {approved}));
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  EXPECT_THROW(client.acquire("key"), ConnectionLost);
  EXPECT_TRUE(client.acquire("key"));
}

TEST(Client, draining_is_no_refusal_by_the_limit) {
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

TEST(Client, after_go_away_calls_wait_for_no_answer) {
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

TEST(Client, idle_connection_that_ends_costs_no_call) {
  std::atomic<int> connections{0};
  FakeServer server = serve([&](Peer& peer) {
    if (connections++ > 0) return approve_all(peer);
    peer.write(pong(read(peer).id));
  });
  Client client = connected(server);
  while (connections < 2) std::this_thread::sleep_for(1ms);  // without a call that finds out
  EXPECT_TRUE(client.acquire("key"));
}

// ------------------------------------------------------------------------------- bounds

TEST(Client, full_client_refuses_or_blocks_as_told) {
  Event go_on;
  FakeServer server = serve([&](Peer& peer) {
    EXPECT_TRUE(go_on.wait());
    approve_all(peer);
  });
  Client client{address_of(server), {.pending_max = 3, .when_full = WhenFull::refuse}};
  std::vector<std::future<Outcome>> futures;
  for (int i = 0; i < 3; ++i) futures.push_back(client.acquire_future("key"));
  EXPECT_EQ(client.acquire_future("key").get().failure, Failure::overloaded);
  EXPECT_THROW(client.acquire("key"), Overloaded);
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

TEST(Client, what_the_server_would_refuse_is_not_sent) {
  FakeServer server = serve(approve_all);
  Client client{address_of(server)};
  EXPECT_THROW(client.acquire("key", {.cost = 0}), std::invalid_argument);
  EXPECT_THROW(client.acquire("key", {.max_requests = 0}), std::invalid_argument);
  EXPECT_THROW(client.acquire("key", {.wait_limit_ms = 3'600'001}), std::invalid_argument);
  EXPECT_THROW(client.acquire(std::string(65'536, 'k')), std::invalid_argument);
  EXPECT_THROW(client.acquire_batch(std::vector<uint32_t>{7}), std::invalid_argument);
  EXPECT_THROW(Client("no port"), std::invalid_argument);
  EXPECT_THROW(Client("localhost:1", {.pending_max = 0}), std::invalid_argument);
  EXPECT_THROW(Client("localhost:1", {.call_timeout = 0ms}), std::invalid_argument);
}

// --------------------------------------------------------------------- callbacks and ends

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
    try_to([&] { client.acquire("key"); });
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
  client.acquire_async("in line", outcomes.next(), {.may_wait = true});
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

TEST(Client, destruction_completes_every_call) {
  FakeServer server = serve(answer_nothing);
  std::future<Outcome> future;
  {
    Client client{address_of(server)};
    future = client.acquire_future("key");
  }
  EXPECT_EQ(future.get().failure, Failure::closed);
}

TEST(Client, calls_from_many_threads_have_their_own_answers) {
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

// ------------------------------------------------------------------------------ batches

TEST(Client, batch_is_cut_into_frames_and_put_together) {
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

TEST(Client, lost_batch_has_a_verdict_for_what_was_answered) {
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

// Numbers that begin at `first`, in the order asked.
std::string interned_from(const Question& question, uint32_t first) {
  std::vector<uint32_t> numbers;
  for (size_t i = 0; i < question.keys.size(); ++i) {
    numbers.push_back(first + static_cast<uint32_t>(i));
  }
  return test::interned(question.id, numbers, {approved});
}

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
  const std::vector<uint32_t> asked{handles[1], handles[0]};
  for (int connection = 0; connection < 2; ++connection) {
    const BatchOutcome outcome = client.acquire_batch(asked);
    EXPECT_EQ(outcome.verdicts, (std::vector<Verdict>{Verdict::approved, Verdict::denied}));
    while (connections < 2) std::this_thread::sleep_for(1ms);  // the first one ended
  }
  EXPECT_EQ(client.intern(keys), handles) << "and asks nobody for it";
}

TEST(Client, key_without_a_number_is_asked_by_its_text) {
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

TEST(Client, key_that_gets_no_handle_is_named) {
  FakeServer server = serve([](Peer& peer) {
    peer.write(pong(read(peer).id));
    peer.write(test::interned(read(peer).id, {5, no_handle}, {approved, 13}));
    peer.at_end();
  });
  Client client = connected(server);
  try {
    client.intern(std::vector<std::string_view>{"a", "b"});
    FAIL() << "b has none";
  } catch (const NotInterned& fault) {
    EXPECT_NE(fault.handles()[0], no_handle);
    EXPECT_EQ(fault.handles()[1], no_handle);
    EXPECT_EQ(fault.verdicts()[1], Verdict::handles_full);
    EXPECT_NE(std::string{fault.what()}.find("1 of 2 keys"), std::string::npos) << fault.what();
  }
}

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
  for (const auto& [shard, asked] : keys_by_shard) {
    sum += asked.size();
    for (const std::string& key : asked) {
      EXPECT_EQ(sluice::proto::owner_shard(sluice::proto::routing_hash(key, seed), 3), shard);
    }
  }
  EXPECT_EQ(sum, 3 * texts.size());
  EXPECT_EQ(keys_by_shard.size(), 3u);
}

// -------------------------------------------------------------- servers that misbehave, and gaps

TEST(Client, answer_that_is_half_right_completes_every_call) {
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
    peer.write(test::verdicts(second.id, 2, {approved, queued}));  // nobody may wait
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

TEST(Client, server_that_greets_and_drops_is_not_stormed) {
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
  // Half of 40 + 80 + 160 + 320 + 640 ms at least.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 620ms);
}

TEST(Client, late_answer_to_a_batch_that_timed_out_touches_nothing_of_the_caller) {
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
    EXPECT_EQ(client.acquire_batch(keys, {.cost = 2, .timeout = 20ms}).failure, Failure::timed_out);
  }}.join();
  gone.happen();
  client.ping();
}

TEST(Client, requeue_leaves_those_alone_who_have_their_answer) {
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
  std::thread a{[&] { client.acquire("a", {.may_wait = true}); }};
  wait_until_pending(client, 2);
  auto b = client.acquire_future("b", {.may_wait = true});
  staged.happen();
  a.join();
  answered.happen();
  EXPECT_TRUE(b.get());
}

TEST(Client, calls_given_up_before_they_were_sent_are_not_sent) {
  Event given_up;
  FakeServer server = serve([&](Peer& peer) {
    peer.write(pong(read(peer).id));
    const Question first = read(peer);
    EXPECT_TRUE(given_up.wait());
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
    EXPECT_THROW(client.acquire("gone", {.timeout = 2ms}), TimedOut);
  }
  auto last = client.acquire_future("last");
  given_up.happen();
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(last.get());
}

TEST(Client, calls_staged_for_a_shard_that_is_gone_are_completed) {
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
    ASSERT_EQ(each.wait_for(60s), std::future_status::ready) << "a call without any end";
  }
}

TEST(Client, no_more_frames_are_out_than_welcome_allows) {
  std::atomic<int> frames{0};
  FakeServer server = serve([&](Peer& peer) {
    peer.write(pong(read(peer).id));
    for (;;) {
      read(peer);
      ++frames;
    }
  });
  Client client = connected(server, {.on_failure = OnFailure::closed, .call_timeout = 500ms});
  const std::vector<std::string_view> keys(20'000, "key");
  client.acquire_batch(keys);
  EXPECT_LE(frames, 4);
}

// A server that interns keys on its first connection only: on the next they are asked by key.
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

TEST(Client, no_more_bytes_are_out_than_welcome_allows) {
  ByKey by_key;
  Client client = connected(by_key.server, {.on_failure = OnFailure::closed, .call_timeout = 1s});
  const auto handles = by_key.intern(client, 40'000, 20);
  client.acquire_batch(handles);
  EXPECT_LE(by_key.key_bytes, 256u * 1024);
}

TEST(Client, handles_with_long_keys_can_be_asked_by_key) {
  ByKey by_key;
  by_key.answer = true;
  Client client = connected(by_key.server, {.on_failure = OnFailure::closed, .call_timeout = 60s});
  const auto handles = by_key.intern(client, 80'000, 60);
  const BatchOutcome outcome = client.acquire_batch(handles);
  EXPECT_EQ(outcome.failed, 0u) << name(outcome.failure);
}

TEST(Client, close_does_not_wait_for_a_server_that_keeps_silent) {
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

TEST(Client, closed_client_is_closed_for_new_threads_too) {
  FakeServer server = serve(approve_all);
  Client client = connected(server);
  client.close();
  EXPECT_EQ(client.connections(), 0u);
  std::thread{[&] { EXPECT_THROW(client.acquire("key"), Closed); }}.join();
}

TEST(Client, silly_long_timeout_is_no_timeout) {
  FakeServer server = serve(approve_all);
  Client client = connected(server);
  EXPECT_TRUE(client.acquire("key", {.timeout = std::chrono::milliseconds::max()}));
}

}  // namespace
}  // namespace sluicegate
