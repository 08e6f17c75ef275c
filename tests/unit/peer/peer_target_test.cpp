// A target gathers entries while its link has enough of them, and answers by the policy what the
// owner does not. The test is the link.
#include "peer/peer_target.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/peer/peer_fixture.hpp"

namespace sluice::peer {
namespace {

using api::Verdict;
using base::PeerFailure;

class FakeLink final : public Link {
 public:
  bool takes_message() const noexcept override { return takes_messages; }
  void send(Outgoing& outgoing) noexcept override { sent.push_back(&outgoing); }
  uint32_t take_back(Outgoing& outgoing) noexcept override {
    taken_back.push_back(&outgoing);
    return unwritten_count;
  }
  bool takes_notice() const noexcept override { return takes_notices; }
  void withdraw(api::WaiterId waiter, api::Ticket) noexcept override {
    withdrawn.push_back(waiter);
  }
  void refund(const api::RefundClaim& claim) noexcept override { returned.push_back(claim); }

  bool takes_messages = true, takes_notices = true;
  uint32_t unwritten_count = 0;
  std::vector<Outgoing*> sent, taken_back;
  std::vector<api::WaiterId> withdrawn;
  std::vector<api::RefundClaim> returned;
};

class PeerTargetTest : public PeerFixture {
 protected:
  explicit PeerTargetTest(PeerFailure on_failure = PeerFailure::error)
      : PeerFixture(fleet(on_failure)) {}

  void answer(Outgoing& outgoing, Verdict verdict) {
    const uint32_t count = outgoing.message.entries_count();
    std::ranges::fill(outgoing.message.verdicts(0, count), verdict);
    target_.on_answers(outgoing, count);
  }
  void give_up_all() { target_.give_up(context_.now_ms + 1); }
  route::Notice& notice_of(route::Notice::Kind kind) {
    route::Notice& notice = notices_.emplace_back();
    notice.kind = kind;
    notice.waiter = 5;
    notice.refund_claim.cost = 3;
    return notice;
  }
  static std::vector<api::Entry> one_of_each_operation() {
    api::Entry release = entry_of("key"), look = entry_of("key");
    release.op = api::Op::release;
    look.op = api::Op::look;
    return {entry_of("key"), release, look};
  }
  static std::vector<std::string> keys(size_t count) {
    return std::vector<std::string>(count, "key");
  }

  PeerTarget target_{1, context_, counts_};
  FakeLink link_;
  std::deque<route::Notice> notices_;
};

TEST_F(PeerTargetTest, sends_what_was_posted_in_a_turn_as_one_message) {
  target_.connect(link_);
  post(target_, keys(2));
  post(target_, keys(3));
  EXPECT_TRUE(target_.flush());
  ASSERT_EQ(link_.sent.size(), 1U);
  EXPECT_EQ(link_.sent[0]->message.entries_count(), 5U);
  EXPECT_EQ(link_.sent[0]->unanswered_count, 5U);
  EXPECT_TRUE(target_.flush());
  EXPECT_EQ(link_.sent.size(), 1U);
  answer(*link_.sent[0], Verdict::approved);
  EXPECT_EQ(context_.returned, std::vector{&target_});
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), several(5, Verdict::approved));
  EXPECT_TRUE(target_.idle());
}

TEST_F(PeerTargetTest, returns_a_message_when_all_its_entries_are_answered) {
  target_.connect(link_);
  send(target_, keys(3));
  Outgoing& outgoing = *link_.sent[0];
  outgoing.message.verdicts(0, 2)[0] = Verdict::approved;
  target_.on_answers(outgoing, 2);
  deliver(target_);
  EXPECT_EQ(delivered_.messages, 0);
  target_.on_answers(outgoing, 1);
  deliver(target_);
  EXPECT_EQ(delivered_.messages, 1);
}

TEST_F(PeerTargetTest, entries_gather_until_the_link_takes_them_or_a_message_is_full) {
  target_.connect(link_);
  link_.takes_messages = false;
  post(target_, keys(1));
  EXPECT_FALSE(target_.flush());
  EXPECT_FALSE(target_.idle());
  EXPECT_TRUE(link_.sent.empty());
  post(target_, keys(PeerTarget::entries_max - 1));
  ASSERT_EQ(link_.sent.size(), 1U);
  EXPECT_EQ(link_.sent[0]->message.entries_count(), PeerTarget::entries_max);
  post(target_, keys(1));
  EXPECT_FALSE(target_.flush());
  link_.takes_messages = true;
  EXPECT_TRUE(target_.flush());
  EXPECT_EQ(link_.sent.size(), 2U);
}

TEST_F(PeerTargetTest, has_no_room_while_all_messages_are_away) {
  target_.connect(link_);
  mailboxes_.attach(1, target_);
  for (uint32_t i = 0; i < PeerTarget::messages_count; ++i) {
    ASSERT_TRUE(target_.has_room(PeerTarget::entries_max, 0));
    EXPECT_FALSE(mailboxes_.is_any_full());
    post(target_, keys(PeerTarget::entries_max));
  }
  // The last one stays: what is full is sent as soon as there is another.
  EXPECT_FALSE(target_.has_room(1, 3));
  EXPECT_TRUE(mailboxes_.is_any_full());
  mailboxes_.await_room(1);
  answer(*link_.sent[0], Verdict::denied);
  EXPECT_FALSE(mailboxes_.take_room_made());
  deliver(target_);
  EXPECT_TRUE(mailboxes_.take_room_made());
  EXPECT_TRUE(target_.has_room(1, 3));
  EXPECT_FALSE(mailboxes_.is_any_full());
}

TEST_F(PeerTargetTest, is_full_with_the_text_that_a_message_holds) {
  target_.connect(link_);
  link_.takes_messages = false;
  const size_t text_bytes = route::ShardMessage::text_bytes_max - limits::key_bytes_max;
  const std::string key(limits::key_bytes_max, 'k');
  for (size_t bytes = 0; bytes <= text_bytes; bytes += key.size()) post(target_, {key});
  EXPECT_EQ(link_.sent.size(), 1U);
}

// --- The owner does not answer -------------------------------------------------------------

TEST_F(PeerTargetTest, without_a_link_entries_are_unreachable_at_once) {
  send(target_, keys(2));
  EXPECT_FALSE(target_.idle());
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), several(2, Verdict::owner_unreachable));
  EXPECT_FALSE(delivered_.answers[0].detail.is_degraded);
  EXPECT_EQ(counts_.failed_entries, 2U);
  EXPECT_EQ(counts_.forwarded_entries, 0U);
  EXPECT_TRUE(target_.idle());
}

TEST_F(PeerTargetTest, gives_up_what_is_not_answered_in_time) {
  target_.connect(link_);
  send(target_, keys(2));
  context_.now_ms += 100;
  send(target_, keys(1));
  target_.give_up(context_.now_ms);
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), several(2, Verdict::owner_unreachable));
  EXPECT_EQ(link_.taken_back, std::vector{link_.sent[0]});
  give_up_all();
  deliver(target_);
  EXPECT_EQ(delivered_.answers.size(), 3U);
  EXPECT_TRUE(target_.idle());
  EXPECT_EQ(counts_.late_answers, 0U);
  answer(*link_.sent[0], Verdict::approved);
  answer(*link_.sent[1], Verdict::approved);
  deliver(target_);
  EXPECT_EQ(delivered_.messages, 2);
  EXPECT_EQ(counts_.late_answers, 3U);
}

TEST_F(PeerTargetTest, keeps_answers_that_came_before_it_gave_up) {
  target_.connect(link_);
  send(target_, keys(3));
  link_.sent[0]->message.verdicts(1, 1)[0] = Verdict::approved;
  target_.on_answers(*link_.sent[0], 1);
  give_up_all();
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), (std::vector{Verdict::owner_unreachable, Verdict::approved,
                                                Verdict::owner_unreachable}));
  EXPECT_EQ(counts_.failed_entries, 2U);
}

// However it ends, each message is free again.
TEST_F(PeerTargetTest, messages_that_were_given_up_are_free_when_delivered_and_answered) {
  target_.connect(link_);
  for (int i = 0; i < 5; ++i) send(target_, keys(PeerTarget::entries_max));
  give_up_all();
  answer(*link_.sent[0], Verdict::approved);  // before it is delivered
  deliver(target_);
  answer(*link_.sent[2], Verdict::approved);
  target_.on_lost(std::vector{link_.sent[1], link_.sent[3], link_.sent[4]});
  EXPECT_TRUE(target_.idle());
  target_.connect(link_);
  for (uint32_t i = 0; i < PeerTarget::messages_count; ++i) {
    ASSERT_TRUE(target_.has_room(PeerTarget::entries_max, 0)) << i;
    post(target_, keys(PeerTarget::entries_max));
  }
}

TEST_F(PeerTargetTest, a_message_that_was_never_written_is_free_when_it_was_given_up) {
  target_.connect(link_);
  link_.unwritten_count = PeerTarget::entries_max;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(target_.has_room(PeerTarget::entries_max, 0));
    send(target_, keys(PeerTarget::entries_max));
    give_up_all();
    deliver(target_);
  }
  EXPECT_EQ(counts_.late_answers, 0U);
}

TEST_F(PeerTargetTest, the_link_is_lost_with_what_it_has) {
  target_.connect(link_);
  send(target_, keys(2));
  send(target_, keys(1));
  link_.sent[0]->message.verdicts(0, 1)[0] = Verdict::denied;
  target_.on_answers(*link_.sent[0], 1);
  target_.on_lost(link_.sent);
  EXPECT_FALSE(target_.is_connected());
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(),
            (std::vector{Verdict::denied, Verdict::owner_unreachable, Verdict::owner_unreachable}));
  EXPECT_EQ(counts_.links_lost, 1U);
}

struct OfPolicy : PeerTargetTest, ::testing::WithParamInterface<PeerFailure> {
  OfPolicy() : PeerTargetTest(GetParam()) {}
};

// A release that nobody takes, and a look that sees nothing, have failed whatever the policy.
TEST_P(OfPolicy, answers_acquires_only) {
  send(target_, one_of_each_operation());
  send(target_, keys(1));
  deliver(target_);
  const Verdict verdict = GetParam() == PeerFailure::closed ? Verdict::denied
                          : GetParam() == PeerFailure::open ? Verdict::approved
                                                            : Verdict::owner_unreachable;
  EXPECT_EQ(delivered_.verdicts(), (std::vector{verdict, Verdict::owner_unreachable,
                                                Verdict::owner_unreachable, verdict}));
  EXPECT_EQ(delivered_.answers[0].detail.is_degraded, GetParam() == PeerFailure::open);
  EXPECT_EQ(delivered_.answers[0].detail.retry_after_ms,
            GetParam() == PeerFailure::closed ? FailurePolicy::retry_after_ms : 0);
  for (const int other : {1, 2}) {
    EXPECT_FALSE(delivered_.answers[other].detail.is_degraded);
    EXPECT_EQ(delivered_.answers[other].detail.retry_after_ms, 0);
  }
  EXPECT_EQ(counts_.failed_entries, 4U);
}
INSTANTIATE_TEST_SUITE_P(PeerTarget, OfPolicy,
                         ::testing::Values(PeerFailure::error, PeerFailure::closed,
                                           PeerFailure::open));

// --- This node stands in -------------------------------------------------------------------

struct StoodIn : PeerTargetTest {
  StoodIn() : PeerTargetTest(PeerFailure::local) {}

  // Hands over the only message that is stranded.
  Outgoing& stranded() {
    EXPECT_EQ(context_.stranded.size(), 1U);
    Outgoing& outgoing = *context_.stranded.at(0).outgoing;
    EXPECT_EQ(context_.stranded[0].target, &target_);
    context_.stranded.clear();
    return outgoing;
  }
  std::vector<Verdict> verdicts(const Outgoing& outgoing) {
    const auto all = outgoing.message.verdicts(0, outgoing.message.entries_count());
    return {all.begin(), all.end()};
  }
};

// Those that the owner has answered have its answer.
TEST_F(StoodIn, entries_without_an_answer_are_left_to_this_node) {
  target_.connect(link_);
  send(target_, keys(3));
  Outgoing& sent = *link_.sent[0];
  sent.message.verdicts(1, 1)[0] = Verdict::denied;
  target_.on_answers(sent, 1);
  target_.on_lost(link_.sent);
  EXPECT_TRUE(context_.returned.empty());
  Outgoing& outgoing = stranded();
  EXPECT_EQ(verdicts(outgoing), (std::vector{Verdict::none, Verdict::denied, Verdict::none}));
  EXPECT_FALSE(target_.idle());
  for (const uint32_t entry : {0U, 2U}) {
    outgoing.keep_stand_in(entry, Verdict::approved, {}, api::no_waiter);
  }
  target_.on_stood_in(outgoing);
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(),
            (std::vector{Verdict::approved, Verdict::denied, Verdict::approved}));
  EXPECT_EQ(counts_.failed_entries, 2U);
  EXPECT_TRUE(target_.idle());
}

TEST_F(StoodIn, what_gathers_without_a_link_and_what_takes_too_long_is_left_to_it_as_well) {
  send(target_, one_of_each_operation());
  target_.on_stood_in(stranded());
  deliver(target_);
  target_.connect(link_);
  send(target_, keys(1));
  give_up_all();
  Outgoing& late = stranded();
  EXPECT_TRUE(late.is_given_up());
  // The owner answers before the shards of this node have: nobody receives that.
  answer(late, Verdict::denied);
  late.keep_stand_in(0, Verdict::approved, {}, api::no_waiter);
  target_.on_stood_in(late);
  deliver(target_);
  EXPECT_EQ(delivered_.answers.back().verdict, Verdict::approved);
  EXPECT_EQ(counts_.late_answers, 1U);
  EXPECT_TRUE(target_.idle());
  EXPECT_TRUE(target_.has_room(PeerTarget::entries_max, 0)) << "its message is free";
}

// The one entry that a GoccLink fails, or a Lane whose owner shuts down.
TEST_F(StoodIn, a_single_entry_of_a_message_may_be_left_to_it) {
  target_.connect(link_);
  send(target_, keys(2));
  Outgoing& sent = *link_.sent[0];
  sent.message.verdicts(0, 1)[0] = Verdict::approved;
  target_.answer_by_policy(sent, 1, api::Op::acquire);
  target_.on_answers(sent, 2);
  EXPECT_EQ(verdicts(stranded()), (std::vector{Verdict::approved, Verdict::none}));
  target_.on_stood_in(sent);
  deliver(target_);
  EXPECT_EQ(counts_.failed_entries, 1U);
}

// The owner shuts down: it has refused one entry, and is gone before it answers the other.
TEST_F(StoodIn, each_entry_counts_once) {
  target_.connect(link_);
  send(target_, keys(2));
  Outgoing& sent = *link_.sent[0];
  target_.answer_by_policy(sent, 0, api::Op::acquire);
  target_.on_answers(sent, 1);
  target_.on_lost(link_.sent);
  EXPECT_EQ(verdicts(stranded()), (std::vector{Verdict::none, Verdict::none}));
  EXPECT_EQ(counts_.failed_entries, 2U);
  target_.on_stood_in(sent);
  deliver(target_);
  EXPECT_EQ(counts_.failed_entries, 2U);
}

// --- Notices -------------------------------------------------------------------------------

TEST_F(PeerTargetTest, notices_leave_by_the_link_and_are_done) {
  target_.connect(link_);
  target_.post(notice_of(route::Notice::Kind::withdraw));
  target_.post(notice_of(route::Notice::Kind::abandon));
  target_.post(notice_of(route::Notice::Kind::refund));
  EXPECT_FALSE(target_.idle());
  EXPECT_TRUE(target_.flush());
  EXPECT_EQ(link_.withdrawn, (std::vector<api::WaiterId>{5, 5}));
  ASSERT_EQ(link_.returned.size(), 1U);
  EXPECT_EQ(link_.returned[0].cost, 3U);
  deliver(target_);
  EXPECT_EQ(delivered_.notices.size(), 3U);
  EXPECT_TRUE(target_.idle());
}

TEST_F(PeerTargetTest, notices_wait_until_the_link_takes_them) {
  target_.connect(link_);
  link_.takes_notices = false;
  target_.post(notice_of(route::Notice::Kind::refund));
  EXPECT_FALSE(target_.flush());
  EXPECT_TRUE(context_.notices_done.empty());
  link_.takes_notices = true;
  EXPECT_TRUE(target_.flush());
  EXPECT_EQ(link_.returned.size(), 1U);
}

TEST_F(PeerTargetTest, notices_are_done_without_a_link) {
  target_.post(notice_of(route::Notice::Kind::refund));
  target_.post(notice_of(route::Notice::Kind::abandon));
  EXPECT_TRUE(target_.flush());
  EXPECT_EQ(context_.notices_done.size(), 2U);
}

TEST_F(PeerTargetTest, what_gathers_is_given_up_as_well) {
  target_.connect(link_);
  link_.takes_messages = false;
  post(target_, keys(1));
  context_.now_ms += 100;
  post(target_, keys(1));
  target_.give_up(context_.now_ms - 100);
  deliver(target_);
  EXPECT_EQ(delivered_.messages, 0);
  target_.give_up(context_.now_ms - 99);
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), several(2, Verdict::owner_unreachable));
  EXPECT_TRUE(link_.sent.empty());
  EXPECT_TRUE(target_.flush());
  EXPECT_TRUE(target_.idle());
}

TEST_F(PeerTargetTest, time_counts_from_the_first_entry_that_gathers) {
  target_.connect(link_);
  link_.takes_messages = false;
  post(target_, keys(1));
  context_.now_ms += 100;
  link_.takes_messages = true;
  EXPECT_TRUE(target_.flush());
  target_.give_up(context_.now_ms - 99);
  deliver(target_);
  EXPECT_EQ(delivered_.messages, 1);
}

}  // namespace
}  // namespace sluice::peer
