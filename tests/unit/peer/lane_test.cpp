// A lane greets the owner, sends messages in frames that he takes, and brings his answers to their
// entries; when it is lost nothing is sent again. The test is the owner.
#include "peer/lane.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/peer/lane_fixture.hpp"

namespace sluice::peer {
namespace {

using api::Verdict;
using wire::ForwardRequest;
using wire::HelloRequest;
using wire::PingRequest;
using wire::RefundRequest;
using wire::WithdrawRequest;

class LaneTest : public LaneFixture {
 protected:
  using LaneFixture::LaneFixture;
};

TEST_F(LaneTest, greets_with_the_shard_that_it_wants) {
  event(io::EventKind::connected);
  EXPECT_EQ(lane_->state(), Lane::State::greeting);
  const auto& hello = sent().body<HelloRequest>();
  EXPECT_EQ(hello.wanted_shard_plus_one, 3U);
  EXPECT_EQ(hello.version, wire::protocol_version);
  EXPECT_EQ(hello.token, "shared");
  receive(welcome_words({.shard = 2, .shards = 4, .routing_seed = 7, .instance_id = 5}));
  EXPECT_EQ(lane_->state(), Lane::State::open);
  EXPECT_FALSE(lane_->serves());
  EXPECT_EQ(lane_->owner().shard, 2U);
  EXPECT_EQ(lane_->owner().shards, 4U);
  EXPECT_EQ(lane_->owner().routing_seed, 7U);
  EXPECT_EQ(lane_->owner().instance_id, 5U);
  lane_->serve(target_);
  EXPECT_EQ(counts_.links_up, 1U);
}

TEST_F(LaneTest, sends_plain_entries_and_brings_their_verdicts) {
  greet();
  send(target_, std::vector<std::string>{"a", "bc", "d"});
  const auto& forward = sent().body<ForwardRequest>();
  EXPECT_EQ(forward.keys, "abcd");
  EXPECT_TRUE(forward.has_defaults_only());
  EXPECT_FALSE(target_.idle());
  receive(verdicts_words(frames_.id<ForwardRequest>(),
                         {Verdict::approved, Verdict::denied, Verdict::table_full}));
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(),
            (std::vector{Verdict::approved, Verdict::denied, Verdict::table_full}));
  EXPECT_TRUE(target_.idle());
  EXPECT_EQ(counts_.forwarded_entries, 3U);
  EXPECT_EQ(counts_.failed_entries, 0U);
}

TEST_F(LaneTest, brings_the_details_of_entries_that_ask_for_them) {
  greet();
  api::Entry entry = entry_of("key");
  entry.flags = api::flag::wants_details | api::flag::shows_id;
  send(target_, std::vector{entry});
  EXPECT_EQ(sent().body<ForwardRequest>().detail_bits, wire::detail_bit::all);
  const api::Detail detail{
      .limit = 10, .remaining = 4, .window_ms = 1'000, .reset_ms = 300, .request_id = 77};
  receive(verdicts_words(frames_.id<ForwardRequest>(), {Verdict::approved}, {detail}));
  deliver(target_);
  EXPECT_EQ(delivered_.answers[0].detail.remaining, 4U);
  EXPECT_EQ(delivered_.answers[0].detail.request_id, 77U);
}

// A message's memory has what an earlier one left there.
TEST_F(LaneTest, an_owner_that_fails_an_entry_leaves_no_details) {
  greet();
  api::Entry entry = entry_of("key");
  entry.flags = api::flag::wants_details;
  for (int i = 0; i < 2 * static_cast<int>(PeerTarget::messages_count); ++i) {
    send(target_, std::vector{entry});
    const uint64_t id = sent().id<ForwardRequest>(static_cast<size_t>(i));
    if (i < static_cast<int>(PeerTarget::messages_count)) {
      receive(verdicts_words(id, {Verdict::approved}, {{.limit = 10, .reset_ms = 300}}));
    } else {
      receive(verdicts_words(id, {Verdict::owner_unreachable}));
    }
    deliver(target_);
  }
  EXPECT_EQ(delivered_.answers.front().detail.limit, 10U);
  EXPECT_EQ(delivered_.answers.back().verdict, Verdict::owner_unreachable);
  EXPECT_EQ(delivered_.answers.back().detail.limit, 0U);
}

TEST_F(LaneTest, takes_frames_in_pieces) {
  greet();
  send(target_, std::vector<std::string>(5, "key"));
  Words words = verdicts_words(sent().id<ForwardRequest>(), several(5, Verdict::approved));
  const auto bytes = std::as_writable_bytes(std::span(words));
  for (size_t at = 0; at < bytes.size(); ++at) {
    EXPECT_EQ(delivered_.messages, 0);
    alignas(8) std::byte piece[8] = {bytes[at]};
    lane_->on_event(received_event(0, std::span(piece, 1)));
    deliver(target_);
  }
  EXPECT_EQ(delivered_.answers.size(), 5U);
  EXPECT_EQ(lane_->state(), Lane::State::open);
}

TEST_F(LaneTest, entries_gather_while_four_messages_are_unanswered) {
  greet();
  for (int i = 0; i < 6; ++i) send(target_, std::vector<std::string>{"key"});
  EXPECT_EQ(sent().count<ForwardRequest>(), Lane::messages_max);
  EXPECT_FALSE(lane_->takes_message());
  receive(verdicts_words(frames_.id<ForwardRequest>(0), {Verdict::approved}));
  target_.flush();
  EXPECT_EQ(sent().count<ForwardRequest>(), Lane::messages_max + 1);
  EXPECT_EQ(frames_.body<ForwardRequest>(Lane::messages_max).key_sizes.size(), 2U);
}

TEST_F(LaneTest, a_message_that_is_longer_than_a_frame_leaves_in_several) {
  greet();
  const std::string key(1'000, 'k');
  send(target_, std::vector<std::string>(1'000, key));
  const size_t frames = sent().count<ForwardRequest>();
  EXPECT_GT(frames, 3U);
  size_t entries = 0;
  for (size_t i = 0; i < frames; ++i) {
    EXPECT_EQ(delivered_.messages, 0);
    const size_t count = frames_.body<ForwardRequest>(i).key_sizes.size();
    entries += count;
    receive(verdicts_words(frames_.id<ForwardRequest>(i), several(count, Verdict::approved)));
    deliver(target_);
  }
  EXPECT_EQ(entries, 1'000U);
  EXPECT_EQ(delivered_.verdicts(), several(1'000, Verdict::approved));
}

TEST_F(LaneTest, no_more_bytes_are_under_way_than_the_owner_takes) {
  greet();
  const std::string key(1'000, 'k');
  send(target_, std::vector<std::string>(1'000, key));
  send(target_, std::vector<std::string>(1'000, key));
  size_t answered = 0;
  for (; answered < sent().count<ForwardRequest>(); ++answered) {
    size_t under_way = 0;
    for (size_t i = answered; i < frames_.count<ForwardRequest>(); ++i) {
      under_way += frames_.body<ForwardRequest>(i).keys.size();
    }
    EXPECT_LE(under_way, limits::outstanding_bytes_max);
    const size_t count = frames_.body<ForwardRequest>(answered).key_sizes.size();
    receive(
        verdicts_words(frames_.id<ForwardRequest>(answered), several(count, Verdict::approved)));
    target_.flush();
  }
  deliver(target_);
  EXPECT_EQ(delivered_.answers.size(), 2'000U);
}

TEST_F(LaneTest, outcomes_of_waiters_go_to_their_tickets) {
  greet();
  const api::WaiterId waiter = queue(41);
  ASSERT_NE(waiter, api::no_waiter);
  EXPECT_EQ(delivered_.verdicts(), std::vector{Verdict::queued});
  const api::RefundClaim claim{.key_tag = 3, .window_end_ms = 5, .key_position = 8, .cost = 1};
  receive(granted_words(frames_.id<ForwardRequest>(), {0}, {Verdict::approved},
                        {wire::permit_of(claim, 2)}));
  deliver(target_);
  ASSERT_EQ(delivered_.grants.size(), 1U);
  EXPECT_EQ(delivered_.grants[0].ticket, 41U);
  EXPECT_EQ(delivered_.grants[0].verdict, Verdict::approved);
  EXPECT_EQ(delivered_.grants[0].refund_claim.cost, 1U);
  EXPECT_EQ(context_.waiters.used(), 0U);

  // Nobody has received it: the same permit goes back.
  route::Notice& refund = notice_of(route::Notice::Kind::refund, waiter, 41);
  refund.refund_claim = delivered_.grants[0].refund_claim;
  target_.post(refund);
  EXPECT_TRUE(target_.flush());
  const auto& refunded = sent().body<RefundRequest>();
  ASSERT_EQ(wire::permits_count(refunded.permits), 1U);
  const wire::PermitClaim returned = wire::claim_of(wire::nth_permit(refunded.permits, 0));
  EXPECT_EQ(returned.claim.key_tag, claim.key_tag);
  EXPECT_EQ(returned.shard, 2U);
}

TEST_F(LaneTest, goes_on_after_permits_were_refunded) {
  greet();
  lane_->refund({.key_tag = 3, .cost = 1});
  EXPECT_EQ(sent().count<RefundRequest>(), 1U);
  send(target_, std::vector<std::string>{"key"});
  EXPECT_EQ(sent().count<ForwardRequest>(), 1U);
}

TEST_F(LaneTest, a_client_that_leaves_is_withdrawn_and_its_grant_refunded) {
  greet();
  const api::WaiterId waiter = queue(41);
  target_.post(notice_of(route::Notice::Kind::abandon, waiter, 41));
  EXPECT_TRUE(target_.flush());
  const auto& withdraw = sent().body<WithdrawRequest>();
  EXPECT_EQ(withdraw.target, frames_.id<ForwardRequest>());
  ASSERT_EQ(withdraw.entries.size(), 1U);
  EXPECT_EQ(withdraw.entries[0], 0U);
  deliver(target_);
  ASSERT_EQ(delivered_.notices.size(), 1U);
  EXPECT_FALSE(delivered_.notices[0].done);  // the outcome follows
  receive(granted_words(frames_.id<ForwardRequest>(), {0}, {Verdict::withdrawn}));
  deliver(target_);
  ASSERT_EQ(delivered_.grants.size(), 1U);
  EXPECT_EQ(delivered_.grants[0].verdict, Verdict::withdrawn);
}

TEST_F(LaneTest, a_withdrawal_that_crosses_the_outcome_is_not_sent) {
  greet();
  const api::WaiterId waiter = queue(41);
  receive(granted_words(frames_.id<ForwardRequest>(), {0}, {Verdict::approved}));
  const api::WaiterId next = queue(42);
  EXPECT_EQ(next, waiter);  // it has the place of the first one
  target_.post(notice_of(route::Notice::Kind::withdraw, waiter, 41));
  EXPECT_TRUE(target_.flush());
  EXPECT_EQ(sent().count<WithdrawRequest>(), 0U);
  deliver(target_);
  EXPECT_EQ(delivered_.notices.size(), 1U);
}

TEST_F(LaneTest, an_outcome_of_nobody_is_refunded) {
  greet();
  queue(41);
  receive(granted_words(frames_.id<ForwardRequest>(), {7}, {Verdict::approved},
                        {wire::permit_of({.cost = 1}, 0)}));
  EXPECT_EQ(sent().count<RefundRequest>(), 1U);
  EXPECT_TRUE(context_.grants.empty());
}

TEST_F(LaneTest, a_waiter_beyond_all_places_is_unreachable) {
  greet();
  for (uint32_t i = 0; i < waiters_max; ++i) EXPECT_NE(queue(i), api::no_waiter);
  queue(99);
  EXPECT_EQ(delivered_.answers.back().verdict, Verdict::owner_unreachable);
}

TEST_F(LaneTest, a_plain_entry_never_waits) {
  greet();
  send(target_, std::vector{entry_of("key")});
  receive(verdicts_words(sent().id<ForwardRequest>(), {Verdict::queued}));
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), std::vector{Verdict::owner_unreachable});
}

// --- When it is lost -----------------------------------------------------------------------

TEST_F(LaneTest, entries_without_an_answer_are_unreachable_when_it_is_lost) {
  greet();
  const std::string key(1'000, 'k');
  send(target_, std::vector<std::string>(1'000, key));
  const size_t count = sent().body<ForwardRequest>().key_sizes.size();
  receive(verdicts_words(frames_.id<ForwardRequest>(), several(count, Verdict::approved)));
  send(target_, std::vector<std::string>{"more"});
  event(io::EventKind::failed, -ECONNRESET);
  EXPECT_EQ(lane_->state(), Lane::State::lost);
  EXPECT_EQ(io_.closed.size(), 1U);
  EXPECT_TRUE(target_.flush());
  deliver(target_);
  const auto verdicts = delivered_.verdicts();
  EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::approved), count);
  EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::owner_unreachable),
            1'001 - count);
  EXPECT_TRUE(target_.idle());
  EXPECT_EQ(counts_.links_up, 0U);
  EXPECT_EQ(counts_.links_lost, 1U);
  EXPECT_EQ(counts_.failed_entries, 1'001 - count);
  event(io::EventKind::closed);
  EXPECT_EQ(lane_->state(), Lane::State::closed);
}

TEST_F(LaneTest, nothing_is_sent_again_over_the_next_lane) {
  greet();
  send(target_, std::vector<std::string>{"once"});
  EXPECT_EQ(sent().count<ForwardRequest>(), 1U);
  event(io::EventKind::end_of_stream);
  event(io::EventKind::closed);
  Lane next(context_, memory_, 1, 2);
  next.connect({});
  next.on_event(event_of(1, io::EventKind::connected));
  Words welcome = welcome_words({.instance_id = 6});
  next.on_event(received_event(1, std::as_writable_bytes(std::span(welcome))));
  next.serve(target_);
  target_.flush();
  context_.flush();
  frames_.feed(io_.sent.back());
  EXPECT_EQ(frames_.count<ForwardRequest>(), 1U);
  next.lose("the test is over");
}

TEST_F(LaneTest, waiters_are_unreachable_when_it_is_lost) {
  greet();
  const api::WaiterId waiter = queue(41);
  event(io::EventKind::hung_up);
  // Their clients leave at the same time.
  target_.post(notice_of(route::Notice::Kind::abandon, waiter, 41));
  EXPECT_TRUE(target_.flush());
  deliver(target_);
  ASSERT_EQ(delivered_.grants.size(), 1U);
  EXPECT_EQ(delivered_.grants[0].ticket, 41U);
  EXPECT_EQ(delivered_.grants[0].verdict, Verdict::owner_unreachable);
  EXPECT_EQ(delivered_.notices.size(), 1U);
  EXPECT_EQ(context_.waiters.used(), 0U);
}

TEST_F(LaneTest, is_closed_at_once_without_a_socket) {
  io_.connect_error = -EMFILE;
  Lane lane(context_, memory_, 1, 0);
  lane.connect({});
  EXPECT_EQ(lane.state(), Lane::State::closed);
  EXPECT_EQ(lane.why_lost(), "Too many open files");
}

TEST_F(LaneTest, is_lost_when_nobody_answers_the_connection) {
  event(io::EventKind::failed, -ECONNREFUSED);
  EXPECT_EQ(lane_->state(), Lane::State::lost);
  EXPECT_EQ(lane_->why_lost(), "Connection refused");
  event(io::EventKind::connected);  // too late
  EXPECT_EQ(lane_->state(), Lane::State::lost);
}

TEST_F(LaneTest, is_lost_when_a_send_fails) {
  greet();
  send(target_, std::vector<std::string>{"key"});
  context_.flush();
  event(io::EventKind::sent, -EPIPE);
  EXPECT_EQ(lane_->state(), Lane::State::lost);
}

TEST_F(LaneTest, is_lost_by_answers_to_what_nobody_asked) {
  greet();
  receive(verdicts_words(99, {Verdict::approved}));
  EXPECT_EQ(lane_->state(), Lane::State::lost);
}

TEST_F(LaneTest, is_lost_by_answers_of_another_length) {
  greet();
  send(target_, std::vector<std::string>{"a", "b"});
  receive(verdicts_words(sent().id<ForwardRequest>(), several(3, Verdict::approved)));
  EXPECT_EQ(lane_->state(), Lane::State::lost);
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), several(2, Verdict::owner_unreachable));
}

TEST_F(LaneTest, is_lost_by_an_error_with_its_text) {
  greet();
  receive(error_words("no room"));
  EXPECT_EQ(lane_->why_lost(), "no room");
  EXPECT_FALSE(lane_->wants_other_secret());
}

TEST_F(LaneTest, is_lost_by_an_owner_with_another_secret) {
  event(io::EventKind::connected);
  receive(error_words("", ErrorCode::secret_expected));
  EXPECT_EQ(lane_->state(), Lane::State::lost);
  EXPECT_TRUE(lane_->wants_other_secret());
}

// It welcomes a node that shows none as it welcomes any client.
TEST_F(LaneTest, is_lost_by_an_owner_that_takes_no_forwarded_entries) {
  event(io::EventKind::connected);
  receive(welcome_words({.takes_forwards = false}));
  EXPECT_EQ(lane_->state(), Lane::State::lost);
  EXPECT_TRUE(lane_->wants_other_secret());
}

TEST_F(LaneTest, is_lost_by_bytes_that_are_no_frame) {
  greet();
  receive(Words{UINT64_MAX});
  EXPECT_EQ(lane_->state(), Lane::State::lost);
}

TEST_F(LaneTest, is_lost_by_a_second_welcome) {
  greet();
  receive(welcome_words({}));
  EXPECT_EQ(lane_->state(), Lane::State::lost);
}

// --- Time ----------------------------------------------------------------------------------

TEST_F(LaneTest, pings_an_owner_that_is_silent_and_is_lost) {
  greet();
  send(target_, std::vector<std::string>{"key"});
  pass(299);
  EXPECT_EQ(sent().count<PingRequest>(), 0U);
  pass(1);
  EXPECT_EQ(sent().count<PingRequest>(), 1U);
  pass(599);
  EXPECT_EQ(lane_->state(), Lane::State::open);
  EXPECT_EQ(sent().count<PingRequest>(), 1U);
  pass(1);
  EXPECT_EQ(lane_->state(), Lane::State::lost);
  EXPECT_EQ(lane_->why_lost(), "silent");
}

TEST_F(LaneTest, an_owner_that_answers_pings_is_not_lost) {
  greet();
  send(target_, std::vector<std::string>{"key"});
  for (size_t pings = 1; pings < 6; ++pings) {
    pass(300);
    EXPECT_EQ(sent().count<PingRequest>(), pings);
    receive(pong_words());
  }
  EXPECT_EQ(lane_->state(), Lane::State::open);
}

TEST_F(LaneTest, pings_each_second_when_idle) {
  greet();
  pass(999);
  EXPECT_EQ(sent().count<PingRequest>(), 0U);
  pass(1);
  EXPECT_EQ(sent().count<PingRequest>(), 1U);
  pass(899);
  EXPECT_EQ(lane_->state(), Lane::State::open);
  pass(1);
  EXPECT_EQ(lane_->state(), Lane::State::lost);
}

TEST_F(LaneTest, an_owner_that_was_idle_has_the_whole_time_for_an_answer) {
  greet();
  pass(990);
  send(target_, std::vector<std::string>{"key"});
  pass(890);
  EXPECT_EQ(lane_->state(), Lane::State::open);
}

TEST_F(LaneTest, an_owner_that_never_greets_is_lost) {
  event(io::EventKind::connected);
  pass(900);
  EXPECT_EQ(lane_->state(), Lane::State::lost);
}

TEST_F(LaneTest, late_approvals_are_refunded_and_late_waiters_withdrawn) {
  greet();
  api::Entry dear = entry_of("dear");
  dear.cost = 5;
  api::Entry release = entry_of("released");
  release.op = api::Op::release;
  send(target_, std::vector{dear, entry_of("denied"), waiting_entry("waits", 41), release});
  sent();
  target_.give_up(context_.now_ms + 1);
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), several(4, Verdict::owner_unreachable));
  EXPECT_TRUE(target_.idle());
  const uint64_t id = frames_.id<ForwardRequest>();
  receive(
      verdicts_words(id, {Verdict::approved, Verdict::denied, Verdict::queued, Verdict::approved}));
  const auto& refunded = sent().body<RefundRequest>();
  EXPECT_EQ(refunded.target, id);
  EXPECT_EQ(refunded.keys, "dear");
  ASSERT_EQ(refunded.costs.size(), 1U);
  EXPECT_EQ(refunded.costs[0], 5U);
  const auto& withdraw = frames_.body<WithdrawRequest>();
  EXPECT_EQ(withdraw.target, id);
  ASSERT_EQ(withdraw.entries.size(), 1U);
  EXPECT_EQ(withdraw.entries[0], 2U);
  EXPECT_EQ(context_.waiters.used(), 0U);
  EXPECT_EQ(counts_.late_answers, 4U);
  deliver(target_);
  EXPECT_EQ(delivered_.messages, 1);
}

TEST_F(LaneTest, answers_that_no_entry_can_have_are_unreachable) {
  greet();
  send(target_, std::vector{entry_of("a"), entry_of("b")});
  receive(verdicts_words(sent().id<ForwardRequest>(), {Verdict::withdrawn, Verdict::handles_full}));
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), several(2, Verdict::owner_unreachable));
  queue(41);
  receive(granted_words(frames_.id<ForwardRequest>(1), {0}, {Verdict::withdrawn}));
  deliver(target_);
  EXPECT_EQ(delivered_.grants.at(0).verdict, Verdict::owner_unreachable);
}

TEST_F(LaneTest, what_was_not_written_when_it_was_given_up_is_never_sent) {
  greet();
  const std::string key(1'000, 'k');
  for (int i = 0; i < 3; ++i) send(target_, std::vector<std::string>(1'000, key));
  const size_t frames = sent().count<ForwardRequest>();
  target_.give_up(context_.now_ms + 1);
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), several(3'000, Verdict::owner_unreachable));
  for (size_t i = 0; i < frames; ++i) {
    const size_t count = frames_.body<ForwardRequest>(i).key_sizes.size();
    receive(verdicts_words(frames_.id<ForwardRequest>(i), several(count, Verdict::denied)));
  }
  EXPECT_EQ(sent().count<ForwardRequest>(), frames);
  EXPECT_TRUE(lane_->takes_message());
  // All messages are free again.
  for (uint32_t i = 0; i < PeerTarget::messages_count; ++i) {
    ASSERT_TRUE(target_.has_room(PeerTarget::entries_max, 0));
    post(target_, std::vector<std::string>(PeerTarget::entries_max, "key"));
  }
}

// Frames that an owner of another version takes are longer or shorter than ours.
TEST_F(LaneTest, is_lost_by_an_owner_that_takes_no_entries) {
  for (const uint32_t bound : {limits::frame_entries_max, limits::frame_bytes_max}) {
    Lane lane(context_, memory_, 1, 0);
    lane.connect({});
    lane.on_event(event_of(1, io::EventKind::connected));
    Words welcome = welcome_with(bound, 0);
    lane.on_event(received_event(1, std::as_writable_bytes(std::span(welcome))));
    EXPECT_EQ(lane.state(), Lane::State::lost) << bound;
  }
}

TEST_F(LaneTest, sends_no_longer_frames_than_its_output_holds) {
  event(io::EventKind::connected);
  receive(welcome_with(limits::frame_bytes_max, UINT32_MAX));
  lane_->serve(target_);
  const std::string key(1'020, 'k');
  send(target_, std::vector<std::string>(1'020, key));
  EXPECT_GT(sent().count<ForwardRequest>(), 3U);
  EXPECT_EQ(lane_->state(), Lane::State::open);
}

// With keys so long that few entries are as many bytes as an owner takes unanswered.
class LongKeysLaneTest : public LaneTest {
 protected:
  static constexpr size_t entries_count = 900;  // of a message: most of 256 KiB

  LongKeysLaneTest() { greet(); }

  void send_long() {
    send(target_, std::vector<std::string>(entries_count, std::string(280, 'k')));
  }
  void approve_late(size_t forward) {
    const size_t count = frames_.body<ForwardRequest>(forward).key_sizes.size();
    receive(verdicts_words(frames_.id<ForwardRequest>(forward), several(count, Verdict::approved)));
  }
  // Of frames that the owner has not answered, when it has answered so many.
  size_t outstanding_bytes(size_t forwards_answered, size_t refunds_done) {
    size_t bytes = 0;
    const auto forwards = sent().of<ForwardRequest>();
    for (size_t i = forwards_answered; i < forwards.size(); ++i) {
      const auto& forward = frames_.body<ForwardRequest>(i);
      bytes += forward.keys.size() + forward.key_sizes.size_bytes();
    }
    for (size_t i = refunds_done; i < frames_.count<RefundRequest>(); ++i) {
      const auto& refund = frames_.body<RefundRequest>(i);
      bytes += refund.keys.size() + refund.key_sizes.size_bytes() + refund.costs.size_bytes() +
               refund.permits.size();
    }
    return bytes;
  }
};

TEST_F(LongKeysLaneTest, refunds_count_as_bytes_that_the_owner_has_not_answered) {
  for (int i = 0; i < 4; ++i) send_long();
  sent();
  target_.give_up(context_.now_ms + 1);
  deliver(target_);
  for (int i = 0; i < 4; ++i) send_long();  // what is free when others are answered
  const size_t forwards = sent().count<ForwardRequest>();
  ASSERT_GE(forwards, 3U);
  for (size_t answered = 1; answered <= 3; ++answered) {
    approve_late(answered - 1);
    EXPECT_LE(outstanding_bytes(answered, 0), limits::outstanding_bytes_max) << answered;
  }
  const size_t refunds = frames_.count<RefundRequest>();
  ASSERT_GT(refunds, 3U);
  EXPECT_EQ(frames_.count<ForwardRequest>(), forwards) << "refunds have taken their room";
  for (size_t i = 0; i < refunds; ++i) receive(done_words(frames_.id<RefundRequest>(i)));
  EXPECT_GT(sent().count<ForwardRequest>(), forwards);
  EXPECT_EQ(lane_->state(), Lane::State::open);
}

TEST_F(LongKeysLaneTest, permits_of_grants_wait_for_room) {
  constexpr size_t permits_count = 10 * wire::refund_permits_max;
  for (int i = 0; i < 4; ++i) send_long();
  const size_t forwards = sent().count<ForwardRequest>();
  for (size_t i = 0; i < permits_count; ++i) lane_->refund({.key_tag = 3, .cost = 1});
  EXPECT_LE(outstanding_bytes(0, 0), limits::outstanding_bytes_max);
  for (size_t i = 0; i < forwards; ++i) {
    const size_t count = frames_.body<ForwardRequest>(i).key_sizes.size();
    receive(verdicts_words(frames_.id<ForwardRequest>(i), several(count, Verdict::denied)));
  }
  size_t refunded = 0;
  for (size_t i = 0; i < sent().count<RefundRequest>(); ++i) {
    EXPECT_LE(outstanding_bytes(forwards, i), limits::outstanding_bytes_max);
    refunded += wire::permits_count(frames_.body<RefundRequest>(i).permits);
    receive(done_words(frames_.id<RefundRequest>(i)));
  }
  EXPECT_EQ(refunded, permits_count);
  EXPECT_EQ(lane_->state(), Lane::State::open);
  deliver(target_);
}

// An owner that takes more unanswered bytes than the lane's output holds, and then reads nothing.
TEST_F(LaneTest, is_lost_when_late_answers_are_returned_to_an_owner_that_does_not_read) {
  event(io::EventKind::connected);
  receive(welcome_with(limits::outstanding_bytes_max, 16 * limits::outstanding_bytes_max));
  lane_->serve(target_);
  for (int i = 0; i < 3; ++i) {
    send(target_, std::vector<std::string>(1'000, std::string(1'000, 'k')));
  }
  const size_t forwards = sent().count<ForwardRequest>();
  target_.give_up(context_.now_ms + 1);
  deliver(target_);
  size_t answered = 0;
  for (; answered < forwards && lane_->state() == Lane::State::open; ++answered) {
    const size_t count = frames_.body<ForwardRequest>(answered).key_sizes.size();
    receive(
        verdicts_words(frames_.id<ForwardRequest>(answered), several(count, Verdict::approved)));
  }
  EXPECT_EQ(lane_->state(), Lane::State::lost);
  EXPECT_LT(answered, forwards);
  EXPECT_FALSE(target_.is_connected());
  EXPECT_TRUE(target_.idle());
  delivered_.answers.clear();
  send(target_, std::vector<std::string>{"key"});
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), several(1, Verdict::owner_unreachable));
}

}  // namespace
}  // namespace sluice::peer
