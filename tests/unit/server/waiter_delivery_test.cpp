// Goal: permits that no client received are refunded at the shard that granted them, and every
//       ticket is free in the end.
// Method: two shards in one thread, with deciders that give scripted answers and record the calls;
//         clients leave before an outcome reaches them, in each order of the outcome, the notice
//         and the end of the connection.
#include "server/waiter_delivery.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::server {
namespace {

using session::WaitEvent;
using session::WaitingEntry;
using session::WaitState;

// Gives the answers that the test sets, and records the calls: "abandon 5 of 0".
class ScriptedDecider final : public api::Decider {
 public:
  bool withdraw(api::WaiterId waiter, api::Ticket, base::Now,
                api::ShardId origin) noexcept override {
    return keep("withdraw", waiter, origin);
  }
  bool abandon(api::WaiterId waiter, api::Ticket, base::Now,
               api::ShardId origin) noexcept override {
    return keep("abandon", waiter, origin);
  }
  bool refund(const api::RefundClaim& refund_claim, base::Now) noexcept override {
    calls.push_back("refund " + std::to_string(refund_claim.cost + refund_claim.reservation));
    return true;
  }
  void drain(base::Now) noexcept override {}
  void run_due(base::Now) noexcept override {}
  int64_t next_due_ns() const noexcept override { return base::never_ns; }
  std::span<api::Grant> grants() noexcept override { return outcomes; }
  void keep_grants(size_t count) noexcept override { outcomes.resize(count); }
  uint32_t waiters_count() const noexcept override { return 0; }
  uint64_t reserved_bytes() const noexcept override { return 0; }
  void check_invariants(base::Now) const noexcept override {}

  bool still_waits = true;
  std::vector<api::Grant> outcomes;
  std::vector<std::string> calls;

 private:
  bool keep(const char* call, api::WaiterId waiter, api::ShardId origin) {
    std::string text(call);
    text += ' ';
    text += std::to_string(waiter);
    text += " of ";
    text += std::to_string(origin);
    calls.push_back(text);
    return still_waits;
  }
};

using Calls = std::vector<std::string>;

// One shard: the part of a worker that waiters pass through.
class Side {
 public:
  Side(route::Mesh& mesh, api::ShardId shard) : mailboxes(mesh, shard) {}

  // Receives, then sends what was posted before and meanwhile.
  void turn() {
    mailboxes.receive(*this);
    waiters.deliver_grants();
    waiters.send_grants();
    mailboxes.flush();
  }
  void on_message(api::ShardId origin, route::ShardMessage& message) {
    for (route::Notice& notice : message.notices) waiters.on_notice(origin, notice);
    for (const api::Grant& grant : message.grants) waiters.on_grant(grant);
  }
  void on_returned(api::ShardId, route::ShardMessage& message) {
    for (const route::Notice& notice : message.notices) waiters.on_notice_returned(notice);
  }

  // An entry that this owner has queued as waiter 5.
  WaitingEntry& queued_by(api::ShardId owner, bool quota = false) {
    const api::Ticket ticket =
        context.waits.take(0, 0, quota ? session::WaitsFor::quota : session::WaitsFor::permits);
    waiters.on_queued(ticket, 5, owner);
    return context.waits[ticket];
  }
  uint32_t tickets() const { return context.waits.tickets_count(); }

  route::Mailboxes mailboxes;
  ScriptedDecider keys, quotas;
  session::KeepingBackend backend;
  const session::Options options{.waiters_max = 10};
  session::Context context{backend, options};
  SessionTable sessions{{.sockets_max = 1, .key_bytes_max = 64, .shards = 1}};
  WaiterDelivery waiters{context, sessions, mailboxes, keys, quotas, 10};
};

class WaiterDeliveryTest : public ::testing::Test {
 protected:
  static api::Grant approved(const WaitingEntry& entry, api::RefundClaim refund_claim) {
    return {
        .ticket = entry.ticket, .verdict = api::Verdict::approved, .refund_claim = refund_claim};
  }

  route::Mesh mesh_{{.shards = 2, .messages = 1, .entries_max = 1}};
  Side here_{mesh_, 0};
  Side owner_{mesh_, 1};
};

TEST_F(WaiterDeliveryTest, frees_ticket_of_abandoned_local_waiter) {
  here_.waiters.abandon(here_.queued_by(0));
  EXPECT_EQ(here_.keys.calls, Calls{"abandon 5 of 0"});
  EXPECT_EQ(here_.tickets(), 0U);
}

TEST_F(WaiterDeliveryTest, refunds_grant_of_abandoned_waiter) {
  here_.keys.still_waits = false;  // granted, and not delivered yet
  WaitingEntry& entry = here_.queued_by(0);
  here_.keys.outcomes = {approved(entry, {.cost = 3})};
  here_.waiters.abandon(entry);
  ASSERT_EQ(here_.tickets(), 1U);
  here_.waiters.deliver_grants();
  EXPECT_EQ(here_.keys.calls, (Calls{"abandon 5 of 0", "refund 3"}));
  EXPECT_TRUE(here_.keys.outcomes.empty());
  EXPECT_EQ(here_.tickets(), 0U);
}

TEST_F(WaiterDeliveryTest, refunds_nothing_when_abandoned_waiter_is_denied) {
  here_.keys.still_waits = false;
  WaitingEntry& entry = here_.queued_by(0);
  // A grant names the waiter's cost, whatever its verdict is.
  here_.keys.outcomes = {
      {.ticket = entry.ticket, .verdict = api::Verdict::wait_limit, .refund_claim = {.cost = 2}}};
  here_.waiters.abandon(entry);
  here_.waiters.deliver_grants();
  EXPECT_EQ(here_.keys.calls, Calls{"abandon 5 of 0"});
  EXPECT_EQ(here_.tickets(), 0U);
}

TEST_F(WaiterDeliveryTest, refunds_permits_of_another_nodes_client) {
  here_.waiters.refund({.cost = 3}, 0);
  EXPECT_EQ(here_.keys.calls, Calls{"refund 3"});
  EXPECT_EQ(here_.tickets(), 0U);
}

TEST_F(WaiterDeliveryTest, refunds_permits_of_another_nodes_client_at_their_shard) {
  here_.waiters.refund({.cost = 3}, 1);
  here_.waiters.refund({.cost = 4}, 1);
  here_.waiters.refund({}, 1);  // a forged claim of nothing
  EXPECT_EQ(here_.tickets(), 2U);
  for (int turn = 0; turn < 4; ++turn) {
    here_.turn();
    owner_.turn();
  }
  here_.turn();
  EXPECT_EQ(owner_.keys.calls, (Calls{"refund 3", "refund 4"}));
  EXPECT_TRUE(here_.keys.calls.empty());
  EXPECT_EQ(here_.tickets(), 0U);
}

TEST_F(WaiterDeliveryTest, refunds_leave_half_of_the_room_to_those_who_wait) {
  const size_t claims_max = here_.options.waiters_max / 2 + 1;
  for (size_t claim = 0; claim < claims_max + 5; ++claim) here_.waiters.refund({.cost = 1}, 1);
  EXPECT_EQ(here_.tickets(), claims_max);
}

TEST_F(WaiterDeliveryTest, quota_waiters_use_the_quota_decider) {
  here_.quotas.still_waits = false;
  WaitingEntry& entry = here_.queued_by(0, true);
  here_.quotas.outcomes = {approved(entry, {.reservation = 77})};
  here_.waiters.abandon(entry);
  here_.waiters.deliver_grants();
  EXPECT_EQ(here_.quotas.calls, (Calls{"abandon 5 of 0", "refund 77"}));
  EXPECT_TRUE(here_.keys.calls.empty());
}

TEST_F(WaiterDeliveryTest, abandons_waiter_of_another_shard_by_notice) {
  here_.waiters.abandon(here_.queued_by(1));
  EXPECT_EQ(here_.tickets(), 1U);
  here_.turn();
  owner_.turn();
  EXPECT_EQ(owner_.keys.calls, Calls{"abandon 5 of 0"});
  here_.turn();
  EXPECT_EQ(here_.tickets(), 0U);
}

TEST_F(WaiterDeliveryTest, owner_refunds_grant_that_passes_the_notice) {
  WaitingEntry& entry = here_.queued_by(1);
  owner_.keys.still_waits = false;
  owner_.keys.outcomes = {approved(entry, {.cost = 2})};
  here_.waiters.abandon(entry);
  for (int turn = 0; turn < 4; ++turn) {
    here_.turn();
    owner_.turn();
  }
  here_.turn();
  EXPECT_EQ(owner_.keys.calls, (Calls{"abandon 5 of 0", "refund 2"}));
  EXPECT_TRUE(here_.keys.calls.empty());
  EXPECT_EQ(here_.tickets(), 0U);
}

TEST_F(WaiterDeliveryTest, withdraws_once_and_keeps_ticket_until_notice_returns) {
  WaitingEntry& entry = here_.queued_by(1);
  here_.context.waits.follow(entry, WaitEvent::joined);
  here_.waiters.withdraw(entry);
  here_.waiters.withdraw(entry);
  here_.turn();
  here_.context.waits.follow(entry, WaitEvent::granted);
  here_.context.waits.free(entry.ticket);  // its session has written the outcome
  EXPECT_EQ(here_.tickets(), 1U);
  owner_.turn();
  here_.turn();
  EXPECT_EQ(owner_.keys.calls, Calls{"withdraw 5 of 0"});
  EXPECT_EQ(here_.tickets(), 0U);
}

TEST_F(WaiterDeliveryTest, grants_stay_with_their_decider_while_the_other_shard_takes_no_more) {
  for (int grants = 0; grants < 3; ++grants) {
    WaitingEntry& entry = here_.queued_by(1);
    here_.context.waits.follow(entry, WaitEvent::client_gone);
    owner_.keys.outcomes.push_back({.ticket = entry.ticket, .verdict = api::Verdict::denied});
  }
  owner_.turn();
  EXPECT_EQ(owner_.keys.outcomes.size(), 2U);
  here_.turn();
  owner_.turn();
  EXPECT_EQ(owner_.keys.outcomes.size(), 1U);
  here_.turn();
  EXPECT_EQ(here_.tickets(), 1U);
}

TEST_F(WaiterDeliveryTest, a_grant_waits_until_its_request_is_complete) {
  WaitingEntry& entry = here_.queued_by(1);
  here_.waiters.on_grant({.ticket = entry.ticket, .verdict = api::Verdict::denied});
  here_.waiters.deliver_early_grants();
  ASSERT_EQ(here_.context.waits[entry.ticket].state, WaitState::undecided);
  // The request is complete, and its client has left.
  here_.context.waits.follow(entry, WaitEvent::client_gone);
  here_.waiters.deliver_early_grants();
  EXPECT_EQ(here_.tickets(), 0U);
}

TEST_F(WaiterDeliveryTest, answer_to_ended_connection_leaves_no_ticket) {
  here_.waiters.free_or_abandon(api::no_ticket, false);
  here_.waiters.free_or_abandon(here_.context.waits.take(0, 0, session::WaitsFor::permits), false);
  here_.waiters.free_or_abandon(here_.queued_by(0).ticket, true);
  EXPECT_EQ(here_.keys.calls, Calls{"abandon 5 of 0"});
  EXPECT_EQ(here_.tickets(), 0U);
}

}  // namespace
}  // namespace sluice::server
