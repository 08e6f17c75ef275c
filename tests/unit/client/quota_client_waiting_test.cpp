// Goal: no reservation stays open when its caller stopped waiting, or never received it.
// Method: a fake server with a script of the frames that it reads and writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <stop_token>
#include <vector>

#include "api/quota.hpp"
#include "quota_scripts.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using namespace test;

// ----------------------------------------------------------------------------------------- waiting

TEST(QuotaClient, waits_in_the_queue_and_is_granted) {
  const FakeServer server = serve([](Peer& peer) {
    const ReceivedFrame received = read_quota(peer);
    EXPECT_EQ(received.flags, quota_flag::may_wait);
    EXPECT_EQ(received.wait_limit_ms, 60'000u);
    peer.write(answers(received.id, 1, {QuotaCode::queued}));
    peer.write(granted(received.id, QuotaCode::ok, reservation));
    const ReceivedFrame settled = read_quota(peer);
    peer.write(ok(settled));
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  Reservation call = client.reserve("gpt-4o", {.may_wait = true, .wait_limit_ms = 60'000});
  EXPECT_TRUE(call);
  EXPECT_EQ(call.id(), reservation);
  EXPECT_EQ(call.settle().code, QuotaCode::ok);
}

TEST(QuotaClient, stop_token_withdraws_a_waiting_reserve) {
  std::stop_source stop;
  const FakeServer server = serve([&](Peer& peer) {
    const ReceivedFrame received = read_quota(peer);
    peer.write(answers(received.id, 1, {QuotaCode::queued}));
    stop.request_stop();
    const ReceivedFrame withdraw = read_quota(peer);
    EXPECT_EQ(withdraw.kind, Which::WITHDRAW);
    EXPECT_EQ(withdraw.withdrawn, std::vector<uint32_t>{0});
    peer.write(granted(received.id, QuotaCode::withdrawn, 0));
    peer.write(done(withdraw.id));
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  const Reservation call = client.reserve("a", {.may_wait = true}, stop.get_token());
  EXPECT_EQ(call.outcome().code, QuotaCode::withdrawn);
}

TEST(QuotaClient, ends_a_wait_with_the_code_of_the_server) {
  for (const QuotaCode code :
       {QuotaCode::ok, QuotaCode::unlimited, QuotaCode::wait_limit, QuotaCode::exceeds_limit,
        QuotaCode::blocked, QuotaCode::unknown_subject}) {
    const FakeServer server = serve([&](Peer& peer) {
      const ReceivedFrame received = read_quota(peer);
      peer.write(answers(received.id, 1, {QuotaCode::queued}));
      peer.write(granted(received.id, code, 0, 250));
      peer.at_end();
    });
    Client client{address_of(server), quick()};
    const Reservation call = client.reserve("a", {.may_wait = true});
    EXPECT_EQ(call.outcome().code, code) << name(code);
    EXPECT_EQ(call.outcome().retry_after_ms, 250);
  }
}

// A reservation that arrives too late has no guard.
TEST(QuotaClient, cancels_a_reservation_granted_after_its_caller_left) {
  Frames frames;
  const FakeServer server = serve([&](Peer& peer) {
    peer.write(pong(read(peer).id));
    const ReceivedFrame received = read_quota(peer);
    frames.wait_for(1);
    peer.write(answers(received.id, 1, {QuotaCode::ok}, {reservation}));
    for (;;) frames.add(read_quota(peer));
  });
  Client client = connected(server);
  EXPECT_THROW((void)client.reserve("a", {.timeout = sent_before}), TimedOut);
  frames.add({});
  const auto received = frames.wait_for(2);
  EXPECT_EQ(received[1].kind, Which::CANCEL);
  EXPECT_EQ(received[1].reservations, std::vector<uint64_t>{reservation});
}

TEST(QuotaClient, keeps_a_late_reservation_with_a_client_id) {
  Frames frames;
  const FakeServer server = serve([&](Peer& peer) {
    peer.write(pong(read(peer).id));
    const ReceivedFrame received = read_quota(peer);
    frames.wait_for(1);
    peer.write(answers(received.id, 1, {QuotaCode::ok}, {reservation}));
    for (;;) {
      const ReceivedFrame next = read_quota(peer);
      frames.add(next);
      peer.write(ok(next));
    }
  });
  Client client = connected(server);
  EXPECT_THROW((void)client.reserve("a", {.id = "call-1", .timeout = sent_before}), TimedOut);
  frames.add({});
  EXPECT_EQ(client.reserve("a", {.id = "call-1"}).detach(), reservation);
  EXPECT_EQ(frames.wait_for(2)[1].kind, Which::RESERVE);
}

// ---------------------------------------------------------------------------------------- failures

TEST(QuotaClient, a_lost_connection_is_a_failure_by_the_policy) {
  const auto lose = [](Peer& peer) { read_quota(peer); };
  const FakeServer server = serve(lose);
  Client strict{address_of(server), quick()};
  EXPECT_THROW(strict.reserve("a"), ConnectionLost);
  Client open{address_of(server), quick({.on_failure = OnFailure::open, .settle_timeout = 0ms})};
  Reservation call = open.reserve("a");
  EXPECT_TRUE(call);
  EXPECT_EQ(call.outcome().failure, Failure::connection_lost);
  EXPECT_EQ(call.id(), 0u);
  EXPECT_TRUE(call.settle().kept);  // its usage is recorded later
  Client closed{address_of(server), quick({.on_failure = OnFailure::closed})};
  const Reservation denied = closed.reserve("a");
  EXPECT_FALSE(denied);
  EXPECT_EQ(denied.outcome().code, QuotaCode::none);
}

TEST(QuotaClient, draining_is_a_failure_and_no_denial) {
  const FakeServer server = serve([](Peer& peer) {
    const ReceivedFrame received = read_quota(peer);
    peer.write(answers(received.id, 1, {QuotaCode::draining}));
    peer.at_end();
  });
  Client client{address_of(server), quick({.on_failure = OnFailure::open})};
  const Reservation call = client.reserve("a");
  EXPECT_TRUE(call);
  EXPECT_EQ(call.outcome().failure, Failure::draining);
}

TEST(QuotaClient, close_completes_waiting_calls) {
  std::promise<void> is_queued;
  const FakeServer server = serve([&](Peer& peer) {
    const ReceivedFrame received = read_quota(peer);
    peer.write(answers(received.id, 1, {QuotaCode::queued}));
    is_queued.set_value();
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  auto call = client.reserve_future("a", {.may_wait = true});
  is_queued.get_future().wait();
  client.close();
  const Reservation closed = call.get();
  EXPECT_EQ(closed.outcome().failure, Failure::closed);
  EXPECT_FALSE(closed);
}

}  // namespace
}  // namespace sluicegate
