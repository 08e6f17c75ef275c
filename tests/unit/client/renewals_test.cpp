// Goal: a reservation is renewed in time while its guard lives, and its holder learns when it may
// be lost. Method: renewals with a clock and an extend() of the test; guards with a fake server.
#include "clients/cpp/src/renewals.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "quota_scripts.hpp"

namespace sluicegate {
namespace {

using namespace test;

using Time = Tenure::Clock::time_point;

constexpr Time begin{std::chrono::hours{1}};
constexpr auto lifetime = 3'000ms;
constexpr Time never = Time::max();

class RenewalsTest : public testing::Test {
 protected:
  std::shared_ptr<Tenure> add() {
    auto tenure = std::make_shared<Tenure>(7, lifetime, now_ + lifetime);
    renewals_.add(tenure);
    return tenure;
  }
  // Lets the time pass until something is due, and does it.
  Time advance() {
    now_ = renewals_.renew_due();
    return renewals_.renew_due();
  }
  void answer(QuotaOutcome outcome) {
    ASSERT_FALSE(asked_.empty());
    const auto done = std::exchange(asked_, {}).front();
    done(outcome);
  }

  Time now_ = begin;
  std::vector<Renewals::Done> asked_;
  std::vector<std::chrono::milliseconds> timeouts_;
  int wakes_ = 0;
  Renewals renewals_{{.now = [this] { return now_; },
                      .extend =
                          [this](const Tenure& tenure, auto timeout, auto done) {
                            EXPECT_EQ(tenure.reservation(), 7u);
                            timeouts_.push_back(timeout);
                            asked_.push_back(std::move(done));
                          },
                      .wake = [this] { ++wakes_; }}};
};

TEST_F(RenewalsTest, nothing_is_due_without_a_guard) {
  EXPECT_EQ(renewals_.renew_due(), never);
}

TEST_F(RenewalsTest, renews_at_each_third_of_the_lifetime) {
  const auto tenure = add();
  EXPECT_EQ(wakes_, 1);
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(renewals_.renew_due(), begin + i * lifetime / 3);
    EXPECT_TRUE(asked_.empty());
    (void)advance();
    answer({.code = QuotaCode::ok});
    EXPECT_TRUE(tenure->is_held(now_ + lifetime - 1ms));
    EXPECT_FALSE(tenure->is_held(now_ + lifetime));
  }
  EXPECT_EQ(timeouts_, std::vector<std::chrono::milliseconds>(5, lifetime / 3));
}

// The server has counted from the request on, and the answer came later.
TEST_F(RenewalsTest, a_renewal_counts_from_its_request) {
  const auto tenure = add();
  (void)advance();
  const Time asked = now_;
  now_ += 500ms;
  answer({.code = QuotaCode::ok});
  EXPECT_FALSE(tenure->is_held(asked + lifetime));
  EXPECT_EQ(renewals_.renew_due(), now_ + lifetime / 3);
}

TEST_F(RenewalsTest, a_failed_renewal_is_tried_again_while_it_is_held) {
  const auto tenure = add();
  (void)advance();
  int attempts = 0;
  // With on_failure open the code is ok, and only the failure says that nothing was renewed.
  for (; !asked_.empty(); ++attempts) {
    answer({.code = QuotaCode::ok, .failure = Failure::unreachable});
    EXPECT_EQ(renewals_.renew_due(), now_ + lifetime / 10);
    (void)advance();
  }
  EXPECT_EQ(now_, begin + lifetime + 100ms);
  EXPECT_FALSE(tenure->is_held(begin + lifetime));
  EXPECT_EQ(attempts, 7);
  EXPECT_EQ(renewals_.renew_due(), never);
}

TEST_F(RenewalsTest, a_reservation_that_has_ended_is_lost_at_once) {
  for (const QuotaCode code : {QuotaCode::unknown_reservation, QuotaCode::already_expired}) {
    const auto tenure = add();
    (void)advance();
    answer({.code = code});
    EXPECT_FALSE(tenure->is_held(now_));
    EXPECT_EQ(renewals_.renew_due(), never);
  }
}

TEST_F(RenewalsTest, a_node_that_is_out_of_reach_ends_nothing) {
  const auto tenure = add();
  (void)advance();
  answer({.code = QuotaCode::owner_unreachable});
  EXPECT_TRUE(tenure->is_held(now_));
  EXPECT_EQ(renewals_.renew_due(), now_ + lifetime / 10);
}

// Its holder may have left when it was not held any more.
TEST_F(RenewalsTest, an_answer_that_comes_too_late_renews_nothing) {
  const auto tenure = add();
  (void)advance();
  now_ = begin + lifetime;
  answer({.code = QuotaCode::ok});
  EXPECT_FALSE(tenure->is_held(now_));
  EXPECT_EQ(renewals_.renew_due(), never);
}

TEST_F(RenewalsTest, nothing_is_renewed_without_its_guard) {
  auto tenure = add();
  tenure.reset();
  (void)advance();
  EXPECT_TRUE(asked_.empty());
  tenure = add();
  (void)advance();
  tenure.reset();
  answer({.code = QuotaCode::ok});
  EXPECT_EQ(renewals_.renew_due(), never);
}

// ---------------------------------------------------------------------------------- with guards

TEST(RenewedGuard, is_held_as_long_as_it_lives) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{address_of(server), quick()};
  Reservation slot = client.lease("gpu", {.lifetime_ms = 3'000, .renew = true});
  EXPECT_TRUE(slot.held());
  Reservation moved = std::move(slot);
  for (const ReceivedFrame& each : frames.wait_for(3)) {
    if (each.kind == Which::RESERVE) continue;
    EXPECT_EQ(each.kind, Which::EXTEND);
    EXPECT_EQ(each.reservations, std::vector<uint64_t>{reservation});
    EXPECT_EQ(each.lifetime_ms, 3'000u);
  }
  EXPECT_TRUE(moved.held());
  EXPECT_TRUE(moved.release());
  EXPECT_FALSE(moved.held());
}

TEST(RenewedGuard, is_not_held_once_the_server_has_forgotten_it) {
  const FakeServer server = serve([](Peer& peer) {
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      peer.write(received.kind == Which::EXTEND
                     ? answers(received.id, 1, {QuotaCode::unknown_reservation})
                     : ok(received));
    }
  });
  Client client{address_of(server), quick()};
  const Reservation slot = client.lease("gpu", {.lifetime_ms = 30'000, .renew = true});
  Reservation extended = client.lease("gpu", {.lifetime_ms = 600'000});
  EXPECT_TRUE(extended.held());
  EXPECT_EQ(extended.extend().code, QuotaCode::unknown_reservation);
  EXPECT_FALSE(extended.held());
}

TEST(RenewedGuard, without_renewal_it_is_held_for_its_lifetime) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{address_of(server), quick()};
  const Reservation unlimited = client.lease("gpu");
  const Reservation longer = client.lease("gpu", {.lifetime_ms = 600'000});
  const Reservation shorter = client.lease("gpu", {.lifetime_ms = 100});
  std::this_thread::sleep_for(150ms);
  EXPECT_TRUE(unlimited.held());
  EXPECT_TRUE(longer.held());
  EXPECT_FALSE(shorter.held());
  EXPECT_FALSE(Reservation{}.held());
}

// The server may have shortened it, although its answer was lost.
TEST(RenewedGuard, a_shorter_lifetime_counts_without_an_answer) {
  const FakeServer server = serve([](Peer& peer) {
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      if (received.kind == Which::EXTEND) return;
      peer.write(ok(received));
    }
  });
  Client client{address_of(server), quick()};
  Reservation slot = client.lease("gpu", {.lifetime_ms = 600'000});
  EXPECT_THROW((void)slot.extend(10), ConnectionLost);
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(slot.held());
}

TEST(RenewedGuard, one_that_is_detached_is_not_renewed) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{address_of(server), quick()};
  (void)client.lease("gpu", {.lifetime_ms = 3'000, .renew = true}).detach();
  std::this_thread::sleep_for(1'200ms);
  EXPECT_EQ(frames.wait_for(1).size(), 1u);
}

TEST(RenewedGuard, renewal_needs_a_lifetime_and_a_guard) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{address_of(server), quick()};
  EXPECT_THROW((void)client.lease("gpu", {.renew = true}), std::invalid_argument);
  const std::vector<ReserveEntry> entries{{.subject = "gpu"}};
  EXPECT_THROW((void)client.reserve_batch(entries, {.lifetime_ms = 1'000, .renew = true}),
               std::invalid_argument);
}

}  // namespace
}  // namespace sluicegate
