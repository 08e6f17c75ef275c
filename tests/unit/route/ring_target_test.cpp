// Goal: parts of requests and what else is posted arrive in messages, as far as there are some; the
//       rest waits, and only grants are refused.
// Method: one target over a mailbox of two messages of two entries; the test is the other end.
#include "route/ring_target.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/route/message_memory.hpp"

namespace sluice::route {
namespace {

class RingTargetTest : public ::testing::Test {
 protected:
  // The next message that was sent, or null.
  ShardMessage* sent() { return mailbox_.requests.pop(mailbox_.requests.tail()); }

  void post_part(uint32_t entries_count) {
    ShardMessage& message = target_.open(entries_count, 0);
    message.begin_part(0, Form::detailed, entries_count, true);
    for (uint32_t place = 0; place < entries_count; ++place) message.add(api::Entry{}, place);
    target_.end_part();
  }

  MessageMemory memory_{2, 2};
  Mailbox mailbox_{2, 2, memory_.data()};
  Senders senders_;
  LentCounts lent_;
  RingTarget target_{mailbox_, senders_, 5, lent_};
};

TEST_F(RingTargetTest, sends_nothing_when_nothing_was_posted) {
  EXPECT_TRUE(target_.flush());
  EXPECT_EQ(sent(), nullptr);
  EXPECT_TRUE(senders_.empty());
  EXPECT_TRUE(target_.idle());
}

TEST_F(RingTargetTest, a_full_message_leaves_at_once_and_another_with_the_flush) {
  post_part(1);
  EXPECT_EQ(sent(), nullptr);
  post_part(1);
  ShardMessage* const first = sent();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->parts().size(), 2U);
  EXPECT_FALSE(senders_.empty());
  post_part(1);
  EXPECT_EQ(sent(), nullptr);
  EXPECT_TRUE(target_.flush());
  EXPECT_EQ(sent()->entries_count(), 1U);
  EXPECT_TRUE(target_.is_full());
  EXPECT_EQ(lent_.full_targets, 1U);
  EXPECT_EQ(lent_.messages, 2U);
  EXPECT_EQ(lent_.entries, 3U);
  EXPECT_FALSE(target_.has_room(1, 0));
  target_.free(*first);
  EXPECT_EQ(lent_.full_targets, 0U);
  EXPECT_EQ(lent_.messages, 1U);
  EXPECT_EQ(lent_.entries, 1U);
  EXPECT_TRUE(target_.has_room(1, 0));
}

// So that the longest request finds room, however small the messages are.
TEST_F(RingTargetTest, a_part_that_does_not_fit_goes_into_an_empty_message) {
  post_part(1);
  EXPECT_TRUE(target_.has_room(7, 0));
  post_part(7);
  EXPECT_TRUE(target_.flush());
  EXPECT_EQ(sent()->entries_count(), 1U);
  EXPECT_EQ(sent()->entries_count(), 7U);
}

TEST_F(RingTargetTest, a_notice_that_was_sent_is_under_way) {
  Notice notice;
  notice.kind = Notice::Kind::withdraw;
  notice.waiter = 5;
  target_.post(notice);
  EXPECT_FALSE(target_.idle());
  target_.flush();
  EXPECT_TRUE(notice.under_way);
  EXPECT_FALSE(notice.is_linked());
  EXPECT_EQ(sent()->notices.at(0).waiter, 5U);
}

TEST_F(RingTargetTest, notices_wait_for_a_message) {
  post_part(2);
  post_part(2);
  EXPECT_TRUE(target_.flush());
  Notice notice;
  target_.post(notice);
  EXPECT_FALSE(target_.flush());
  EXPECT_EQ(target_.full_count(), 1U);
  target_.free(*sent());
  EXPECT_TRUE(target_.flush());
  EXPECT_TRUE(notice.under_way);
}

// Requests take all messages again, as soon as they return.
TEST_F(RingTargetTest, entries_keep_nothing_else_from_leaving) {
  for (int turn = 0; turn < 3; ++turn) {
    while (target_.has_room(2, 0)) post_part(2);
    EXPECT_EQ(lent_.full_targets, 1U);
    Notice notice;
    target_.post(notice);
    EXPECT_TRUE(target_.post(api::Grant{}));
    target_.post(ShardTask{});
    EXPECT_TRUE(target_.flush());
    EXPECT_TRUE(notice.under_way);
    ShardMessage* const first = sent();
    ShardMessage* const last = sent();
    EXPECT_EQ(last->grants.size(), 1U);
    EXPECT_EQ(last->tasks.size(), 1U);
    target_.free(*first);
    target_.free(*last);
    EXPECT_EQ(lent_.full_targets, 0U);
  }
}

TEST_F(RingTargetTest, grants_are_refused_when_no_message_is_left) {
  for (int grants = 0; grants < 4; ++grants) EXPECT_TRUE(target_.post(api::Grant{}));
  EXPECT_FALSE(target_.post(api::Grant{}));
  target_.flush();
  EXPECT_EQ(sent()->grants.size(), 2U);
  EXPECT_EQ(sent()->grants.size(), 2U);
}

TEST_F(RingTargetTest, sends_tasks_and_connections_and_is_idle_when_all_returned) {
  target_.post(ShardTask{});
  target_.post(Handover{.fd = 9, .listener = 1, .bytes = {}});
  target_.flush();
  ShardMessage* const message = sent();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->tasks.size(), 1U);
  EXPECT_EQ(message->handovers.at(0).fd, 9);
  EXPECT_FALSE(target_.idle());
  message->handovers.clear();
  target_.free(*message);
  EXPECT_TRUE(target_.idle());
  EXPECT_TRUE(message->tasks.empty());
}

}  // namespace
}  // namespace sluice::route
