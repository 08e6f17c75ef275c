// Goal: posted items arrive in order, as far as there are messages; the rest waits, and only grants
//       are refused.
// Method: one target over a mailbox of two messages of two entries; the test is the other end.
#include "route/ring_target.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::route {
namespace {

class RingTargetTest : public ::testing::Test {
 protected:
  // The next message that was sent, or null.
  ShardMessage* sent() { return mailbox_.requests.pop(mailbox_.requests.tail()); }

  // Queues entries of one request, with different costs.
  void queue(uint32_t count) {
    const SplitBook::Index split = book_.open({.entries_count = count});
    for (uint32_t place = 0; place < count; ++place) {
      book_.put(book_.slot(split, place), {.cost = place});
      target_.queue(book_.slot(split, place));
    }
  }
  static std::vector<uint32_t> costs(const ShardMessage& message) {
    std::vector<uint32_t> costs;
    for (const api::Entry& entry : message.entries) costs.push_back(entry.cost);
    return costs;
  }

  Mailbox mailbox_{2, 2};
  const SplitOptions options_{.entries_max = 16, .text_bytes_max = 64};
  SplitBook book_{options_};
  std::vector<uint32_t> next_ = std::vector<uint32_t>(16);
  RingTarget target_{mailbox_, book_, next_};
};

TEST_F(RingTargetTest, sends_nothing_when_nothing_was_posted) {
  target_.flush();
  EXPECT_EQ(sent(), nullptr);
  EXPECT_FALSE(target_.take_wake());
  EXPECT_TRUE(target_.idle());
}

TEST_F(RingTargetTest, entries_fill_messages_in_order_and_the_rest_waits) {
  queue(5);
  target_.flush();
  EXPECT_TRUE(target_.take_wake());
  ShardMessage* const first = sent();
  ShardMessage* const second = sent();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(sent(), nullptr);
  EXPECT_EQ(costs(*first), (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(costs(*second), (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(target_.full_count(), 1U);
  target_.free(*first);
  target_.flush();
  ShardMessage* const third = sent();
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(costs(*third), std::vector<uint32_t>{4});
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

TEST_F(RingTargetTest, grants_are_refused_when_no_message_is_left) {
  for (int grants = 0; grants < 4; ++grants) EXPECT_TRUE(target_.post(api::Grant{}));
  EXPECT_TRUE(target_.post(api::Grant{}) == false);
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
