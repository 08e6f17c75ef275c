// Messages arrive, are answered and return; a shard that sleeps is woken; room is made known to
// those who wait for it.
#include "route/mailboxes.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::route {
namespace {

// Notes what a shard receives, in order.
struct Notes {
  void on_message(api::ShardId origin, ShardMessage& message) {
    text += "m" + std::to_string(origin);
    if (!message.grants.empty()) text += "g";
    text += " ";
  }
  void on_returned(api::ShardId target, ShardMessage&) {
    text += "r" + std::to_string(target) + " ";
  }
  std::string text;
};

class MailboxesTest : public ::testing::Test {
 protected:
  static std::string receive(Mailboxes& shard) {
    Notes notes;
    shard.receive(notes);
    return notes.text;
  }
  static std::vector<uint32_t> wakes(Mailboxes& shard) {
    std::vector<uint32_t> woken;
    shard.ring_doorbells([&](uint32_t other) { woken.push_back(other); });
    return woken;
  }
  static void send_part(Mailboxes& from, api::ShardId to) {
    ShardMessage& message = from.open(to, 1, 0);
    message.begin_part(0, Form::detailed, 1, true);
    message.add(api::Entry{}, 0);
    from.target(to).end_part();
    from.flush();
  }

  Mesh mesh_{{.shards = 70, .messages = 1, .entries_max = 1}};
  Mailboxes first_{mesh_, 0}, second_{mesh_, 1}, last_{mesh_, 69};
};

TEST_F(MailboxesTest, a_message_arrives_and_returns) {
  send_part(first_, 69);
  EXPECT_FALSE(first_.idle());
  EXPECT_TRUE(last_.has_messages());
  EXPECT_FALSE(second_.has_messages());
  EXPECT_EQ(receive(last_), "m0 ");
  EXPECT_EQ(receive(first_), "r69 ");
  EXPECT_TRUE(first_.idle());
  EXPECT_EQ(receive(last_), "");
}

// The owner's grant may be seen together with the reply that says `queued`.
TEST_F(MailboxesTest, replies_come_before_messages) {
  send_part(first_, 1);
  EXPECT_EQ(receive(second_), "m0 ");
  second_.post(api::Grant{.origin = 0});
  second_.flush();
  EXPECT_EQ(receive(first_), "r1 m1g ");
}

TEST_F(MailboxesTest, wakes_those_that_sleep_and_were_sent_something) {
  ASSERT_TRUE(second_.prepare_sleep());
  ASSERT_TRUE(last_.prepare_sleep());
  send_part(first_, 1);
  EXPECT_EQ(wakes(first_), std::vector<uint32_t>{1});
  EXPECT_EQ(wakes(first_), std::vector<uint32_t>{});
  EXPECT_FALSE(second_.prepare_sleep());
  ASSERT_TRUE(first_.prepare_sleep());
  receive(second_);
  EXPECT_EQ(wakes(second_), std::vector<uint32_t>{0});
  EXPECT_EQ(first_.wakes(), 1U);
}

TEST_F(MailboxesTest, room_is_made_only_for_those_who_wait_for_it) {
  send_part(first_, 1);
  send_part(first_, 69);
  EXPECT_TRUE(first_.is_any_full());
  first_.await_room(1);
  receive(second_);
  receive(first_);
  EXPECT_TRUE(first_.take_room_made());
  EXPECT_FALSE(first_.take_room_made());
  EXPECT_TRUE(first_.is_any_full());
  receive(last_);
  receive(first_);
  EXPECT_FALSE(first_.take_room_made());
  EXPECT_FALSE(first_.is_any_full());
  send_part(first_, 1);
  receive(second_);
  receive(first_);
  EXPECT_FALSE(first_.take_room_made());
}

TEST_F(MailboxesTest, what_finds_no_message_leaves_with_a_later_flush) {
  send_part(first_, 1);
  Notice notice;
  first_.post(1, notice);
  first_.flush();
  EXPECT_FALSE(notice.under_way);
  EXPECT_EQ(first_.full_count(), 1U);
  receive(second_);
  receive(first_);
  first_.flush();
  EXPECT_TRUE(notice.under_way);
}

}  // namespace
}  // namespace sluice::route
