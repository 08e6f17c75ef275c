// Goal: entries that another node forwards are decided as each of them asks, their grants carry
//       what they can be refunded by, and permits that are returned reach their shards.
// Method: a session over a backend that only records calls; the test decides the entries.
#include <string>
#include <vector>

#include "tests/unit/session/native_quota_fixture.hpp"

namespace sluice::session {
namespace {

using api::Op;
using api::Verdict;
namespace flag = api::flag;

class NativeSessionForwardTest : public NativeQuotaFixture {
 protected:
  explicit NativeSessionForwardTest(uint32_t waiters_max = 100) : NativeQuotaFixture(waiters_max) {}

  using Forward = schema::Forward::Builder;
  using NativeQuotaFixture::NativeQuotaFixture;

  // Three entries with the keys a, b and c.
  template <typename Fill>
  void send_forward(uint64_t id, Fill fill) {
    send(id, [&](ClientFrame frame) {
      auto forward = frame.initForward();
      forward.setKeys(kj::StringPtr("abc").asBytes());
      forward.setKeySizes({1, 1, 1});
      fill(forward);
    });
  }
  void send_plain(uint64_t id) {
    send_forward(id, [](Forward) {});
  }
  template <typename Fill>
  void send_refund(uint64_t id, Fill fill) {
    send(id, [&](ClientFrame frame) { fill(frame.initRefund()); });
  }
  void send_late(uint64_t id, uint64_t target) {
    send_refund(id, [&](schema::Refund::Builder refund) {
      refund.setTarget(target);
      refund.setKeys(kj::StringPtr("abc").asBytes());
      refund.setKeySizes({1, 2});
      refund.setCosts({1, 5});
    });
  }

  std::span<api::Entry> entries() { return context_.turn.entries(); }

  // Answers the only request of the turn.
  void decide(std::vector<Verdict> verdicts, std::vector<api::Detail> details = {}) {
    ASSERT_EQ(context_.turn.requests().size(), 1U);
    details.resize(verdicts.size());
    const route::Request request = context_.turn.requests()[0];
    const std::vector<api::Entry> decided(entries().begin(), entries().end());
    context_.turn.clear();
    session_.on_verdicts(request, {decided, verdicts, details});
    end_turn();
  }

  void grant(api::Ticket ticket, Verdict verdict, api::ShardId owner,
             const api::RefundClaim& claim) {
    WaitingEntry& entry = context_.waits[ticket];
    entry.owner = owner;
    entry.notice.refund_claim = claim;
    context_.waits.follow(entry, WaitEvent::granted);
    session_.on_granted(entry, {.ticket = ticket, .verdict = verdict, .refund_claim = claim});
  }
};

TEST_F(NativeSessionForwardTest, plain_entries_go_the_way_of_a_plain_acquire) {
  send_plain(7);
  ASSERT_EQ(backend_.added.size(), 1U);
  EXPECT_TRUE(context_.turn.empty());
  route::Request request = backend_.added[0];
  request.entries_count = 3;
  session_.on_verdicts(request, {{}, std::vector(3, Verdict::approved), {}});
  end_turn();
  EXPECT_EQ(answered_frame(0).getId(), 7U);
  EXPECT_EQ(answered_frame(0).getVerdicts().getCount(), 3U);
}

TEST_F(NativeSessionForwardTest, each_entry_has_its_operation_and_its_terms) {
  send_forward(7, [](Forward forward) {
    forward.setOperations({0, 1, 2});
    forward.setCosts({0, 7, 9});
    forward.setMaxRequests({5, api::keep, api::keep});
    forward.setDetails(wire::detail_bit::all);
    forward.setEntryDetails({0, 1, 3});
  });
  ASSERT_EQ(entries().size(), 3U);
  EXPECT_EQ(entries()[0].op, Op::look) << "an acquire of cost 0";
  EXPECT_EQ(entries()[1].op, Op::release);
  EXPECT_EQ(entries()[1].cost, 7U);
  EXPECT_EQ(entries()[2].op, Op::look);
  EXPECT_EQ(entries()[0].overrides().max_requests, 5U);
  EXPECT_EQ(entries()[1].given_overrides, nullptr);
  EXPECT_EQ(entries()[0].flags, 0);
  EXPECT_EQ(entries()[1].flags, flag::wants_details);
  EXPECT_EQ(entries()[2].flags, flag::wants_details | flag::shows_id);
  decide(std::vector(3, Verdict::approved));
}

TEST_F(NativeSessionForwardTest, answers_no_details_of_entries_that_want_none) {
  send_forward(7, [](Forward forward) {
    forward.setDetails(wire::detail_bit::limit | wire::detail_bit::request_id);
    forward.setEntryDetails({3, 0, 1});
  });
  const api::Detail of_before{.limit = 99, .request_id = 1'234};
  decide(std::vector(3, Verdict::denied),
         {{.limit = 5, .request_id = 6}, of_before, {.limit = 8, .request_id = 0}});
  const auto details = answered_frame(0).getVerdicts().getDetails();
  for (const auto& [index, limit, id] : {std::tuple{0U, 5U, 6U}, {1U, 0U, 0U}, {2U, 8U, 0U}}) {
    EXPECT_EQ(details.getLimit()[index], limit);
    EXPECT_EQ(details.getRequestId()[index], id);
  }
}

// The server's own limit is 500 ms.
TEST_F(NativeSessionForwardTest, each_entry_waits_as_long_as_it_may) {
  send_forward(7, [](Forward forward) {
    forward.setEntryFlags({1, 1, 0});
    forward.setWaitLimitsMs({250, 0, 0});
  });
  EXPECT_EQ(entries()[0].wait_ms_max, 250U);
  EXPECT_EQ(entries()[1].wait_ms_max, 500U);
  EXPECT_NE(entries()[0].ticket, api::no_ticket);
  EXPECT_NE(entries()[1].ticket, api::no_ticket);
  EXPECT_EQ(entries()[2].ticket, api::no_ticket);
  EXPECT_EQ(context_.waits.tickets_count(), 2U);
  decide(std::vector(3, Verdict::denied));
  EXPECT_EQ(context_.waits.tickets_count(), 0U);
}

TEST_F(NativeSessionForwardTest, only_acquires_wait) {
  send_forward(7, [](Forward forward) {
    forward.setFlags(wire::frame_bit::may_wait);
    forward.setOperations({1, 2, 0});
  });
  EXPECT_EQ(entries()[0].flags, 0);
  EXPECT_EQ(entries()[1].flags, 0);
  EXPECT_EQ(entries()[2].flags, flag::may_wait);
  decide(std::vector(3, Verdict::approved));
}

TEST_F(NativeSessionForwardTest, takes_no_ticket_where_the_other_node_has_no_room) {
  send_forward(7, [](Forward forward) { forward.setEntryFlags({1 | 2, 1 | 4, 2}); });
  EXPECT_EQ(entries()[0].flags, flag::may_wait | flag::waiters_full);
  EXPECT_EQ(entries()[1].flags, flag::may_wait | flag::connection_waiters_full);
  EXPECT_EQ(entries()[2].flags, 0);
  EXPECT_EQ(context_.waits.tickets_count(), 0U);
  decide(std::vector(3, Verdict::waiters_full));
}

class NativeSessionForwardsManyTest : public NativeSessionForwardTest {
 protected:
  NativeSessionForwardsManyTest() : NativeSessionForwardTest(100'000) {}

  void forward_waiting(uint64_t id, uint32_t count) {
    send(id, [count](ClientFrame frame) {
      auto forward = frame.initForward();
      const std::string keys(count, 'a');
      forward.setKeys(kj::StringPtr(keys.c_str()).asBytes());
      auto sizes = forward.initKeySizes(count);
      for (uint32_t i = 0; i < count; ++i) sizes.set(i, 1);
      forward.setFlags(wire::frame_bit::may_wait);
    });
  }
};

// The clients of a whole node share one connection.
TEST_F(NativeSessionForwardsManyTest, more_may_wait_than_of_one_client) {
  uint64_t id = 2;
  for (uint32_t left = limits::connection_waiters_max; left > 0;
       left -= limits::frame_entries_max) {
    forward_waiting(id++, limits::frame_entries_max);
    decide(std::vector(limits::frame_entries_max, Verdict::queued));
  }
  forward_waiting(id, 1);
  EXPECT_NE(entries()[0].ticket, api::no_ticket);
  EXPECT_EQ(entries()[0].flags, flag::may_wait);
  decide({Verdict::queued});
}

TEST_F(NativeSessionForwardTest, grants_carry_the_claims_of_what_was_approved) {
  send_forward(7, [](Forward forward) { forward.setFlags(wire::frame_bit::may_wait); });
  const std::vector tickets{entries()[0].ticket, entries()[1].ticket, entries()[2].ticket};
  decide(std::vector(3, Verdict::queued));
  const api::RefundClaim claim{.key_tag = 11, .window_end_ms = 12, .key_position = 13, .cost = 14};
  grant(tickets[1], Verdict::wait_limit, 2, {});
  grant(tickets[0], Verdict::approved, 2, claim);
  grant(tickets[2], Verdict::approved, 3, {.cost = 1});
  answers_.clear();
  end_turn();
  const auto granted = answered_frame(0).getGranted();
  ASSERT_EQ(granted.getEntries().size(), 3U);
  EXPECT_EQ(granted.getEntries()[0], 1U);
  const auto permits = granted.getPermits();
  ASSERT_EQ(permits.size(), 2 * wire::permit_bytes);
  const std::string_view bytes{reinterpret_cast<const char*>(permits.begin()), permits.size()};
  const wire::PermitClaim first = wire::claim_of(wire::nth_permit(bytes, 0));
  EXPECT_EQ(first.shard, 2);
  EXPECT_EQ(first.claim.key_tag, 11U);
  EXPECT_EQ(first.claim.window_end_ms, 12);
  EXPECT_EQ(first.claim.key_position, 13U);
  EXPECT_EQ(first.claim.cost, 14U);
  EXPECT_EQ(wire::claim_of(wire::nth_permit(bytes, 1)).shard, 3);
}

TEST_F(NativeSessionForwardTest, permits_go_to_their_shards) {
  std::string permits;
  for (const api::ShardId shard : {api::ShardId{0}, api::ShardId{3}, api::ShardId{4}}) {
    const wire::Permit permit = wire::permit_of({.key_tag = 5, .cost = shard + 1U}, shard);
    permits.append(reinterpret_cast<const char*>(permit.data()), permit.size());
  }
  send_refund(7, [&](schema::Refund::Builder refund) {
    refund.setPermits(
        kj::arrayPtr(reinterpret_cast<const kj::byte*>(permits.data()), permits.size()));
  });
  // There is no shard 4.
  ASSERT_EQ(backend_.refunds.size(), 2U);
  EXPECT_EQ(backend_.refunds[0].shard, 0);
  EXPECT_EQ(backend_.refunds[1].shard, 3);
  EXPECT_EQ(backend_.refunds[1].claim.cost, 4U);
  decide({});
  EXPECT_TRUE(answered_frame(0).isDone());
}

TEST_F(NativeSessionForwardTest, late_approvals_are_refunded_to_windows_of_before) {
  context_.now.monotonic_ns = 5'000 * base::ns_per_ms;
  send_plain(7);
  context_.now.monotonic_ns = 9'000 * base::ns_per_ms;
  send_late(8, 7);
  ASSERT_EQ(entries().size(), 2U);
  EXPECT_EQ(entries()[0].op, Op::refund);
  EXPECT_EQ(entries()[0].key(), "a");
  EXPECT_EQ(entries()[1].key(), "bc");
  EXPECT_EQ(entries()[1].cost, 5U);
  // The clocks of several shards may lag.
  EXPECT_EQ(entries()[1].not_after_ms(9'500), 4'900);
  decide(std::vector(2, Verdict::approved));
  EXPECT_TRUE(answered_frame(0).isDone());
}

TEST_F(NativeSessionForwardTest, late_approvals_of_an_unknown_frame_change_nothing) {
  send_plain(7);
  send_late(8, 6);
  for (const api::Entry& entry : entries()) EXPECT_EQ(entry.op, Op::look);
  decide(std::vector(2, Verdict::approved));
  EXPECT_TRUE(answered_frame(0).isDone());
}

// A frame that was refused was not decided; its time must not stand for another of its id.
TEST_F(NativeSessionForwardTest, a_refused_frame_has_no_time) {
  context_.now.monotonic_ns = 1'000 * base::ns_per_ms;
  send_forward(7, [](Forward forward) { forward.setFlags(wire::frame_bit::may_wait); });
  decide({Verdict::queued, Verdict::denied, Verdict::denied});
  context_.now.monotonic_ns = 8'000 * base::ns_per_ms;
  answers_.clear();
  send_plain(7);
  EXPECT_EQ(error_code(0), schema::ErrorCode::ID_IN_USE);
  send_late(8, 7);
  EXPECT_EQ(entries()[0].not_after_ms(8'000), 900);
  decide(std::vector(2, Verdict::approved));
}

TEST_F(NativeSessionForwardTest, is_refused_whole_when_the_server_drains) {
  session_.begin_drain();
  end_turn();
  answers_.clear();
  send_forward(7, [](Forward forward) { forward.setOperations({0, 1, 2}); });
  EXPECT_TRUE(context_.turn.empty());
  const auto verdicts = answered_frame(0).getVerdicts();
  EXPECT_EQ(verdicts.getCount(), 3U);
  EXPECT_EQ(verdicts.getVerdicts()[0], static_cast<uint8_t>(Verdict::draining));
}

// --- The secret ----------------------------------------------------------------------------

const std::string peer_secret = "0123456789abcdef";

class NativeSessionSecretTest : public NativeSessionForwardTest {
 protected:
  NativeSessionSecretTest() : NativeSessionForwardTest(peer_secret, 100) {}

  bool is_offered_forward() {
    return (answered_frame(0).getWelcome().getFeatures() & wire::feature_bit::forward) != 0;
  }
  void expect_refusal(uint64_t id) {
    ASSERT_EQ(answers_.size(), 1U);
    EXPECT_EQ(answered_frame(0).getId(), id);
    EXPECT_EQ(error_code(0), schema::ErrorCode::SECRET_EXPECTED);
    EXPECT_TRUE(session_.connection().finishing());
    EXPECT_TRUE(backend_.added.empty() && context_.turn.empty());
  }
};

TEST_F(NativeSessionSecretTest, one_that_has_shown_it_is_of_a_node) {
  greet(peer_secret);
  EXPECT_TRUE(session_.is_node());
  EXPECT_TRUE(is_offered_forward());
  send_plain(7);
  EXPECT_EQ(backend_.added.size(), 1U);
}

TEST_F(NativeSessionSecretTest, without_it_clients_are_served) {
  greet();
  EXPECT_FALSE(session_.is_node());
  EXPECT_FALSE(is_offered_forward());
  answers_.clear();
  send(7, [](ClientFrame frame) { frame.setPing(); });
  EXPECT_TRUE(answered_frame(0).isPong());
}

TEST_F(NativeSessionSecretTest, without_it_no_forward_is_taken) {
  greet();
  answers_.clear();
  send_plain(7);
  expect_refusal(7);
}

TEST_F(NativeSessionSecretTest, without_it_no_refund_is_taken) {
  greet();
  answers_.clear();
  send_late(7, 6);
  expect_refusal(7);
}

TEST_F(NativeSessionSecretTest, another_one_ends_the_connection) {
  greet("0123456789abcdeF");
  EXPECT_FALSE(session_.is_node());
  expect_refusal(1);
}

TEST_F(NativeSessionForwardTest, without_a_secret_anybody_forwards_and_nobody_is_a_node) {
  EXPECT_FALSE(session_.is_node());
  EXPECT_TRUE(session_.may_forward());
}

}  // namespace
}  // namespace sluice::session
