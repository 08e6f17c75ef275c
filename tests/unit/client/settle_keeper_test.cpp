// Goal: no settle is lost to an outage: whenever the connection breaks, the server gets it later,
// and its usage is recorded where the server has forgotten the reservation.
// Method: a fake server that breaks at each point, and a client with each failure policy.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "quota_scripts.hpp"

namespace sluicegate {
namespace {

using namespace test;

constexpr OnFailure lenient[] = {OnFailure::open, OnFailure::closed};
constexpr std::chrono::milliseconds long_enough{30'000};

ClientOptions with(OnFailure policy) {
  return quick({.on_failure = policy, .settle_timeout = long_enough});
}

SettleCounts wait_until_none_is_kept(const Client& client) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (client.settles().kept > 0) {
    if (std::chrono::steady_clock::now() > deadline) ADD_FAILURE() << "some are still kept";
    if (testing::Test::HasFailure()) break;
    std::this_thread::sleep_for(1ms);
  }
  return client.settles();
}

SettleCounts ended(uint64_t settled, uint64_t recorded, uint64_t lost) {
  return {.kept = 0, .settled = settled, .recorded = recorded, .lost = lost};
}

// What the server does with the first settle; it answers ok to everything else.
enum class Loss { before_it_is_read, before_an_answer, with_half_an_answer, draining, silent };
constexpr Loss losses[] = {Loss::before_it_is_read, Loss::before_an_answer,
                           Loss::with_half_an_answer, Loss::draining, Loss::silent};

class LosingServer {
 public:
  explicit LosingServer(Loss loss) : loss_{loss} {}

  uint16_t port() const { return server_.port(); }
  std::vector<ReceivedFrame> settles(size_t count) { return frames_.wait_for(count); }

 private:
  void script(Peer& peer) {
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      const bool is_settle = received.kind == Which::SETTLE;
      if (is_settle) frames_.add(received);
      if (is_settle && !has_lost_.exchange(true)) {
        if (!lose(peer, received)) return;
        continue;
      }
      peer.write(ok(received));
      // The connection ends before the client sends the settle.
      if (received.kind == Which::RESERVE && loss_ == Loss::before_it_is_read) {
        if (!has_lost_.exchange(true)) return;
      }
    }
  }
  // False: the connection ends.
  bool lose(Peer& peer, const ReceivedFrame& received) {
    if (loss_ == Loss::silent) return true;
    if (loss_ == Loss::with_half_an_answer) peer.write(ok(received).substr(0, 24));
    if (loss_ == Loss::draining) {
      peer.write(answers(received.id, 1, {QuotaCode::draining}));
      return true;
    }
    return false;
  }

  const Loss loss_;
  std::atomic<bool> has_lost_{false};
  Frames frames_;
  FakeServer server_{serve([this](Peer& peer) { script(peer); })};
};

std::string address_of(const LosingServer& server) {
  return "127.0.0.1:" + std::to_string(server.port());
}

ClientOptions for_loss(Loss loss, OnFailure policy) {
  ClientOptions options = with(policy);
  if (loss == Loss::silent) options.call_timeout = sent_before;
  return options;
}

void expect_sent_until_taken(LosingServer& server, Client& client) {
  EXPECT_EQ(wait_until_none_is_kept(client), ended(1, 0, 0));
  for (const ReceivedFrame& each : server.settles(1)) {
    EXPECT_EQ(each.reservations, std::vector<uint64_t>{reservation});
    EXPECT_EQ(each.output_tokens, std::vector<uint64_t>{312});
  }
}

TEST(KeptSettle, a_guards_settle_is_repeated_after_each_loss) {
  for (const OnFailure policy : lenient) {
    for (const Loss loss : losses) {
      LosingServer server{loss};
      Client client{address_of(server), for_loss(loss, policy)};
      Reservation call = client.reserve("gpt-4o");
      const QuotaOutcome outcome = call.settle({.output_tokens = 312});
      if (loss != Loss::before_it_is_read) {  // the client may be connected again by then
        EXPECT_NE(outcome.failure, Failure::none);
        EXPECT_TRUE(outcome.kept);
        EXPECT_EQ(outcome.admitted(), policy == OnFailure::open);
        expect_sent_until_taken(server, client);
      } else {
        EXPECT_EQ(outcome.kept, outcome.failure != Failure::none);
        (void)wait_until_none_is_kept(client);
        EXPECT_FALSE(server.settles(1).empty());
      }
    }
  }
}

TEST(KeptSettle, settles_by_id_are_kept_too) {
  for (const Loss loss : {Loss::before_an_answer, Loss::draining}) {
    LosingServer blocking{loss};
    Client first{address_of(blocking), with(OnFailure::closed)};
    EXPECT_TRUE(first.settle(reservation, {.output_tokens = 312}).kept);
    expect_sent_until_taken(blocking, first);

    LosingServer with_callback{loss};
    Client second{address_of(with_callback), with(OnFailure::open)};
    std::promise<QuotaOutcome> done;
    second.settle_async(reservation, {.output_tokens = 312},
                        [&](const QuotaOutcome& outcome) { done.set_value(outcome); });
    const QuotaOutcome outcome = done.get_future().get();
    EXPECT_TRUE(outcome.kept);
    EXPECT_NE(outcome.failure, Failure::none);
    expect_sent_until_taken(with_callback, second);
  }
}

TEST(KeptSettle, a_guard_that_is_destroyed_keeps_its_settle) {
  for (const Loss loss : {Loss::before_it_is_read, Loss::before_an_answer}) {
    LosingServer server{loss};
    Client client{address_of(server), with(OnFailure::closed)};
    {
      Reservation call = client.reserve("gpt-4o");
      call.report({.output_tokens = 312});
    }
    expect_sent_until_taken(server, client);
  }
}

TEST(KeptSettle, the_policy_error_throws_and_keeps_nothing) {
  LosingServer server{Loss::before_an_answer};
  Client client{address_of(server), with(OnFailure::error)};
  Reservation call = client.reserve("gpt-4o");
  EXPECT_THROW((void)call.settle(), ConnectionLost);
  EXPECT_EQ(client.settles(), SettleCounts{});
}

TEST(KeptSettle, settle_nowait_repeats_under_every_policy) {
  for (const OnFailure policy : {OnFailure::error, OnFailure::open, OnFailure::closed}) {
    for (const Loss loss : losses) {
      LosingServer server{loss};
      Client client{address_of(server), for_loss(loss, policy)};
      Reservation call = client.reserve("gpt-4o");
      call.settle_nowait({.output_tokens = 312});
      EXPECT_FALSE(call.is_open());
      expect_sent_until_taken(server, client);
    }
  }
}

TEST(KeptSettle, settle_nowait_refuses_a_mistake_and_leaves_the_guard_open) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{test::address_of(server), with(OnFailure::error)};
  Reservation call = client.reserve("gpt-4o");
  EXPECT_THROW(call.settle_nowait({.input_tokens = 1, .cached_input_tokens = 2}),
               std::invalid_argument);
  EXPECT_THROW(client.settle_nowait(reservation, {.input_tokens = unset}), std::invalid_argument);
  EXPECT_TRUE(call.is_open());
}

// The settle is sent, and what becomes of it is not the client's.
TEST(KeptSettle, the_policy_error_keeps_nothing_of_a_guard_that_is_destroyed) {
  LosingServer server{Loss::before_an_answer};
  Client client{address_of(server), with(OnFailure::error)};
  {
    Reservation call = client.reserve("gpt-4o");
    call.report({.output_tokens = 312});
  }
  EXPECT_EQ(server.settles(1).size(), 1u);
  EXPECT_EQ(client.settles(), SettleCounts{});
}

// The server is not there yet.
TEST(KeptSettle, many_kept_settles_go_out_in_few_frames) {
  constexpr size_t count = 5'000;
  uint16_t port = 0;
  {
    const FakeServer gone = serve(answer_nothing);
    port = gone.port();
  }
  Client client{"127.0.0.1:" + std::to_string(port),
                quick({.pending_max = 1, .when_full = WhenFull::refuse})};
  for (uint64_t i = 1; i <= count; ++i) client.settle_nowait(i, {.output_tokens = i});
  EXPECT_EQ(client.settles().kept, count);
  Frames frames;
  const FakeServer server{FakeServer::welcoming(answering_ok(frames)), connections_max, port};
  EXPECT_EQ(wait_until_none_is_kept(client), ended(count, 0, 0));
  EXPECT_EQ(client.pending(), 0u);
  std::vector<uint64_t> reservations;
  const auto received = frames.wait_for(1);
  for (const ReceivedFrame& each : received) {
    reservations.insert(reservations.end(), each.reservations.begin(), each.reservations.end());
    EXPECT_EQ(each.output_tokens, each.reservations);
  }
  std::sort(reservations.begin(), reservations.end());
  EXPECT_TRUE(std::adjacent_find(reservations.begin(), reservations.end()) == reservations.end());
  EXPECT_EQ(reservations.size(), count);
  EXPECT_LE(received.size(), 20u);
  client.close();  // before its server ends
}

// All wait for one frame, as the server is not there yet.
TEST(KeptSettle, one_that_the_server_refuses_takes_no_other_with_it) {
  constexpr uint64_t count = 10;
  uint16_t port = 0;
  {
    const FakeServer gone = serve(answer_nothing);
    port = gone.port();
  }
  Client client{"127.0.0.1:" + std::to_string(port), quick()};
  for (uint64_t i = 1; i <= count; ++i) client.settle_nowait(i);
  const auto script = FakeServer::welcoming([](Peer& peer) {
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      const bool is_refused = std::ranges::count(received.reservations, 7U) > 0;
      peer.write(is_refused
                     ? test::error(received.id, schema::ErrorCode::BAD_AMOUNT, "not this one")
                     : ok(received));
    }
  });
  const FakeServer server{script, connections_max, port};
  EXPECT_EQ(wait_until_none_is_kept(client), ended(count - 1, 0, 1));
  client.close();  // before its server ends
}

// A frame that the server is slow to answer takes no room of a caller.
TEST(KeptSettle, repeats_do_not_count_as_calls) {
  Frames frames;
  const FakeServer server = serve([&](Peer& peer) {
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      frames.add(received);
      if (received.kind != Which::SETTLE) peer.write(ok(received));
    }
  });
  Client client{test::address_of(server),
                quick({.pending_max = 1, .when_full = WhenFull::refuse, .settle_timeout = 0ms})};
  client.settle_nowait(reservation);
  (void)frames.wait_for(1);
  EXPECT_EQ(client.pending(), 0u);
  EXPECT_EQ(client.extend(7).code, QuotaCode::ok);
  client.close();
  EXPECT_EQ(client.settles(), ended(0, 0, 1));
}

// ------------------------------------------------------------------------------- what is recorded

// A server that has forgotten all reservations, and may lose the answer to the first record.
class ForgetfulServer {
 public:
  explicit ForgetfulServer(bool loses_a_record = false) : has_lost_{!loses_a_record} {}

  std::string address() const { return test::address_of(server_); }
  std::vector<ReceivedFrame> records(size_t count) { return frames_.wait_for(count); }

 private:
  void script(Peer& peer) {
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      if (received.kind == Which::SETTLE) {
        peer.write(answers(received.id, received.entries(), {QuotaCode::unknown_reservation}));
        continue;
      }
      if (received.kind == Which::RECORD) {
        frames_.add(received);
        if (!has_lost_.exchange(true)) return;
      }
      peer.write(ok(received));
    }
  }

  std::atomic<bool> has_lost_;
  Frames frames_;
  FakeServer server_{serve([this](Peer& peer) { script(peer); })};
};

void expect_recorded(const ReceivedFrame& record) {
  EXPECT_EQ(record.subjects, (std::vector<std::string>{"gpt-4o", "acme"}));
  EXPECT_EQ(record.counts, std::vector<uint8_t>{2});
  EXPECT_EQ(record.input_tokens, std::vector<uint64_t>{900});
  EXPECT_EQ(record.output_tokens, std::vector<uint64_t>{312});
  EXPECT_EQ(record.ids, "settle-0000001189abcdef");
}

Reservation reserve_two(Client& client) {
  return client.reserve({"gpt-4o", "acme"}, {.input_tokens = 900, .max_output_tokens = 500});
}

TEST(KeptSettle, usage_of_a_forgotten_reservation_is_recorded) {
  for (const OnFailure policy : lenient) {
    ForgetfulServer server;
    Client client{server.address(), with(policy)};
    const QuotaOutcome outcome = reserve_two(client).settle({.output_tokens = 312});
    EXPECT_EQ(outcome.code, QuotaCode::ok);
    EXPECT_FALSE(outcome.kept);
    expect_recorded(server.records(1).at(0));
    EXPECT_EQ(client.settles(), ended(0, 1, 0));
  }
}

TEST(KeptSettle, a_record_that_was_lost_is_repeated_under_the_same_id) {
  ForgetfulServer server{true};
  Client client{server.address(), with(OnFailure::closed)};
  EXPECT_TRUE(reserve_two(client).settle({.output_tokens = 312}).kept);
  EXPECT_EQ(wait_until_none_is_kept(client), ended(0, 1, 0));
  for (const ReceivedFrame& each : server.records(2)) expect_recorded(each);
}

TEST(KeptSettle, a_kept_settle_is_recorded_too) {
  for (const bool loses_a_record : {false, true}) {
    ForgetfulServer server{loses_a_record};
    Client client{server.address(), with(OnFailure::error)};
    reserve_two(client).settle_nowait({.output_tokens = 312});
    EXPECT_EQ(wait_until_none_is_kept(client), ended(0, 1, 0));
    for (const ReceivedFrame& each : server.records(loses_a_record ? 2 : 1)) expect_recorded(each);
  }
}

// A server that knows no reservation when it is settled, and says which start of it answers: one
// until it has lost so many settles with their connections, then another one or still the same.
class RestartedServer {
 public:
  RestartedServer(uint64_t start_after_losses, size_t losses)
      : start_after_losses_{start_after_losses}, losses_left_{losses} {}

  static constexpr uint64_t first_start = 11, later_start = 12;

  std::string address() const { return test::address_of(server_); }
  std::vector<ReceivedFrame> records(size_t count) { return records_.wait_for(count); }

 private:
  void script(Peer& peer) {
    peer.read();
    const uint64_t start = losses_left_ > 0 ? first_start : start_after_losses_;
    peer.write(welcome_with([&](schema::Welcome::Builder to) { to.setInstanceId(start); }));
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      if (received.kind == Which::RECORD) records_.add(received);
      if (received.kind != Which::SETTLE) {
        peer.write(ok(received));
      } else if (losses_left_ > 0) {
        --losses_left_;
        return;
      } else {
        peer.write(answers(received.id, received.entries(), {QuotaCode::unknown_reservation}));
      }
    }
  }

  const uint64_t start_after_losses_;
  std::atomic<size_t> losses_left_;
  Frames records_;
  FakeServer server_{[this](Peer& peer) { script(peer); }, connections_max};
};

// The server took the settle whose answer was lost, and has forgotten the ended reservation since.
TEST(KeptSettle, what_the_same_start_of_the_server_has_forgotten_is_not_recorded) {
  for (const bool is_call : {true, false}) {
    RestartedServer server{RestartedServer::first_start, 1};
    Client client{server.address(), with(OnFailure::closed)};
    Reservation call = reserve_two(client);
    if (is_call) {
      EXPECT_TRUE(call.settle({.output_tokens = 312}).kept);
    } else {
      call.settle_nowait({.output_tokens = 312});
    }
    EXPECT_EQ(wait_until_none_is_kept(client), ended(1, 0, 0));
    EXPECT_TRUE(server.records(0).empty());
  }
}

TEST(KeptSettle, what_a_later_start_of_the_server_has_forgotten_is_recorded) {
  for (const bool is_call : {true, false}) {
    RestartedServer server{RestartedServer::later_start, 1};
    Client client{server.address(), with(OnFailure::closed)};
    Reservation call = reserve_two(client);
    if (is_call) {
      EXPECT_TRUE(call.settle({.output_tokens = 312}).kept);
    } else {
      call.settle_nowait({.output_tokens = 312});
    }
    EXPECT_EQ(wait_until_none_is_kept(client), ended(0, 1, 0));
    expect_recorded(server.records(1).at(0));
  }
}

TEST(KeptSettle, a_settle_that_comes_too_late_is_not_recorded) {
  RestartedServer server{RestartedServer::first_start, 0};
  Client client{server.address(), with(OnFailure::open)};
  Reservation call = reserve_two(client);
  EXPECT_EQ(call.outcome().instance_id, RestartedServer::first_start);
  const QuotaOutcome outcome = call.settle({.output_tokens = 312});
  EXPECT_EQ(outcome.code, QuotaCode::unknown_reservation);
  EXPECT_FALSE(outcome.kept);
  EXPECT_EQ(client.settles(), SettleCounts{});
  reserve_two(client).settle_nowait({.output_tokens = 312});
  EXPECT_EQ(wait_until_none_is_kept(client), ended(0, 0, 1));
  EXPECT_TRUE(server.records(0).empty());
}

TEST(KeptSettle, a_guard_that_is_moved_still_knows_its_start_of_the_server) {
  RestartedServer server{RestartedServer::first_start, 0};
  Client client{server.address(), with(OnFailure::open)};
  Reservation call;
  call = reserve_two(client);
  EXPECT_EQ(call.settle().code, QuotaCode::unknown_reservation);
  EXPECT_TRUE(server.records(0).empty());
}

TEST(KeptSettle, without_a_guard_a_forgotten_reservation_is_lost) {
  ForgetfulServer server;
  Client client{server.address(), with(OnFailure::open)};
  EXPECT_EQ(client.settle(reservation).code, QuotaCode::unknown_reservation);
  client.settle_nowait(reservation);
  EXPECT_EQ(wait_until_none_is_kept(client), ended(0, 0, 1));
}

TEST(KeptSettle, the_policy_error_returns_that_it_is_forgotten) {
  ForgetfulServer server;
  Client client{server.address(), with(OnFailure::error)};
  EXPECT_EQ(reserve_two(client).settle().code, QuotaCode::unknown_reservation);
  EXPECT_EQ(client.settles(), SettleCounts{});
}

// The first connection breaks when the client reserves: its policy admits the call.
TEST(KeptSettle, usage_that_the_policy_admitted_is_recorded_under_ids_of_its_own) {
  std::atomic<bool> has_lost{false};
  Frames frames;
  const FakeServer server = serve([&](Peer& peer) {
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      if (!has_lost && received.kind == Which::RESERVE) return;
      frames.add(received);
      peer.write(ok(received));
    }
  });
  Client client{test::address_of(server), with(OnFailure::open)};
  Reservation settled = reserve_two(client);
  Reservation left = reserve_two(client);
  Reservation reported = reserve_two(client);
  Reservation unused = reserve_two(client);
  for (const Reservation* each : {&settled, &left, &reported, &unused}) {
    EXPECT_TRUE(*each);
    EXPECT_EQ(each->id(), 0u);
    EXPECT_FALSE(each->is_open());
  }
  has_lost = true;
  const QuotaOutcome outcome = settled.settle({.output_tokens = 312});
  EXPECT_EQ(outcome.kept, outcome.failure != Failure::none);  // whether it is connected by then
  left.settle_nowait({.output_tokens = 312});
  reported.report({.output_tokens = 312});
  reported = {};
  unused = {};
  EXPECT_EQ(wait_until_none_is_kept(client), ended(0, 3, 0));
  std::vector<std::string> ids;
  for (const ReceivedFrame& each : frames.wait_for(1)) {
    ASSERT_EQ(each.kind, Which::RECORD);
    EXPECT_EQ(each.first_subjects(), std::vector<std::string>(each.entries(), "gpt-4o"));
    EXPECT_EQ(each.output_tokens, std::vector<uint64_t>(each.entries(), 312));
    EXPECT_TRUE(each.ids.starts_with("settle-"));
    for (size_t at = 0; at < each.ids.size(); at += each.ids.size() / each.entries()) {
      ids.push_back(each.ids.substr(at, each.ids.size() / each.entries()));
    }
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_TRUE(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
  EXPECT_EQ(ids.size(), 3u);
}

// The usage is recorded, so what the server has reserved after all must not be charged, too.
TEST(KeptSettle, a_reservation_that_comes_too_late_is_cancelled) {
  for (const OnFailure policy : lenient) {
    Frames frames;
    Event has_timed_out;
    const FakeServer server = serve([&](Peer& peer) {
      const ReceivedFrame late = read_quota(peer);
      EXPECT_TRUE(has_timed_out.wait());
      peer.write(ok(late));
      answering_ok(frames)(peer);
    });
    Client client{test::address_of(server), with(policy)};
    Reservation call = client.reserve("gpt-4o", {.timeout = sent_before});
    EXPECT_EQ(call.outcome().failure, Failure::timed_out);
    has_timed_out.happen();
    const ReceivedFrame cancel = frames.wait_for(1).at(0);
    EXPECT_EQ(cancel.kind, Which::CANCEL);
    EXPECT_EQ(cancel.reservations, std::vector<uint64_t>{reservation});
  }
}

// ------------------------------------------------------------------------------------- the bounds

// An address at which nobody listens.
std::string nowhere() {
  const FakeServer gone = serve(answer_nothing);
  return test::address_of(gone);
}

TEST(KeptSettle, a_full_book_is_an_error) {
  ClientOptions options = quick({.on_failure = OnFailure::open});
  options.kept_settles_max = 2;
  options.settle_timeout = 0ms;
  Client client{nowhere(), options};
  EXPECT_TRUE(client.settle(1).kept);
  client.settle_nowait(2);
  EXPECT_THROW((void)client.settle(3), ConnectionLost);
  EXPECT_THROW(client.settle_nowait(3), Overloaded);
  std::promise<QuotaOutcome> done;
  client.settle_async(3, {}, [&](const QuotaOutcome& outcome) { done.set_value(outcome); });
  const QuotaOutcome outcome = done.get_future().get();
  EXPECT_FALSE(outcome.kept);
  EXPECT_EQ(outcome.failure, Failure::unreachable);
  EXPECT_EQ(outcome.code, QuotaCode::none);
  {
    Reservation call = client.reserve("gpt-4o");
    call.report({.output_tokens = 312});
  }
  EXPECT_EQ(client.settles(), (SettleCounts{.kept = 2, .lost = 1}));
  client.close();
  EXPECT_EQ(client.settles(), ended(0, 0, 3));
  EXPECT_THROW(client.settle_nowait(3), Closed);
}

TEST(KeptSettle, a_reservation_whose_lifetime_ends_is_lost) {
  const FakeServer server = serve([&](Peer& peer) {
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      if (received.kind == Which::SETTLE) return;
      peer.write(ok(received));
    }
  });
  Client client{test::address_of(server), with(OnFailure::closed)};
  Reservation call = client.reserve("gpt-4o", {.lifetime_ms = 300});
  EXPECT_TRUE(call.settle().kept);
  EXPECT_EQ(wait_until_none_is_kept(client), ended(0, 0, 1));
}

// extend() gives it more time: it is still repeated after the first lifetime.
TEST(KeptSettle, extend_renews_the_lifetime) {
  std::atomic<bool> takes{false};
  const FakeServer server = serve([&](Peer& peer) {
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      if (received.kind == Which::SETTLE && !takes) return;
      peer.write(ok(received));
    }
  });
  Client client{test::address_of(server), with(OnFailure::closed)};
  Reservation call = client.reserve("gpt-4o", {.lifetime_ms = 100});
  EXPECT_EQ(call.extend(600'000).code, QuotaCode::ok);
  EXPECT_TRUE(call.settle().kept);
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(client.settles().kept, 1u);
  takes = true;
  EXPECT_EQ(wait_until_none_is_kept(client), ended(1, 0, 0));
}

TEST(KeptSettle, close_waits_until_all_are_taken) {
  std::atomic<int> settles{0};
  const FakeServer server = serve([&](Peer& peer) {
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      if (received.kind == Which::SETTLE && ++settles < 5) return;
      peer.write(ok(received));
    }
  });
  ClientOptions options = with(OnFailure::open);
  options.settle_timeout = std::chrono::hours{24};  // and not that long
  Client client{test::address_of(server), options};
  { client.reserve("gpt-4o").report({.output_tokens = 312}); }
  client.close();
  EXPECT_EQ(client.settles(), ended(1, 0, 0));
  EXPECT_EQ(settles, 5);
}

TEST(KeptSettle, close_waits_for_no_pause) {
  LosingServer server{Loss::before_an_answer};
  ClientOptions options{.on_failure = OnFailure::open, .settle_timeout = std::chrono::hours{24}};
  options.backoff_first = options.backoff_longest = std::chrono::hours{1};
  Client client{address_of(server), options};
  Reservation call = client.reserve("gpt-4o");
  EXPECT_TRUE(call.settle({.output_tokens = 312}).kept);
  client.close();
  EXPECT_EQ(client.settles(), ended(1, 0, 0));
}

TEST(KeptSettle, close_does_not_wait_when_none_is_kept) {
  ClientOptions options = quick();
  options.settle_timeout = std::chrono::hours{24};
  Client client{nowhere(), options};
  client.close();
}

}  // namespace
}  // namespace sluicegate
