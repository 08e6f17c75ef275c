// Goal: a ticket is free again when its entry has ended and no notice names it, not sooner; an
//       impossible transition of an entry ends the process.
// Method: the test takes entries of a small book through their states.
#include "session/wait_book.hpp"

#include <gtest/gtest.h>

namespace sluice::session {
namespace {

using route::Notice;

class WaitBookTest : public ::testing::Test {
 protected:
  WaitBook book_{1};
  const api::Ticket ticket_ = book_.take(7, 3);
};

TEST_F(WaitBookTest, frees_ticket_of_entry_decided_at_once) {
  EXPECT_EQ(book_[ticket_].session, 7U);
  EXPECT_EQ(book_[ticket_].entry_index, 3U);
  book_.free(ticket_);
  EXPECT_EQ(book_.tickets_count(), 0U);
}

TEST_F(WaitBookTest, keeps_ticket_until_its_notice_has_returned) {
  WaitingEntry& entry = book_[ticket_];
  book_.follow(entry, WaitEvent::joined);
  entry.notice.kind = Notice::Kind::withdraw;
  book_.follow(entry, WaitEvent::granted);
  book_.free(ticket_);
  ASSERT_EQ(book_.tickets_count(), 1U);
  EXPECT_EQ(book_[ticket_].state, WaitState::ended);
  entry.notice.kind = Notice::Kind::none;
  book_.free_ended(ticket_);
  EXPECT_EQ(book_.tickets_count(), 0U);
}

TEST_F(WaitBookTest, asserts_on_impossible_transitions) {
  WaitingEntry& entry = book_[ticket_];
  EXPECT_DEATH(book_.free_ended(ticket_), "ended");
  book_.follow(entry, WaitEvent::joined);
  EXPECT_DEATH(book_.free(ticket_), "no_wait_state");
  EXPECT_DEATH(book_.follow(entry, WaitEvent::joined), "no_wait_state");
}

TEST_F(WaitBookTest, counts_tickets_that_wait_or_hold_an_outcome) {
  EXPECT_EQ(book_.waiting_count(), 0U);
  book_.follow(book_[ticket_], WaitEvent::joined);
  EXPECT_EQ(book_.waiting_count(), 1U);
  const api::Ticket undecided = book_.take(7, 4);
  EXPECT_EQ(book_.waiting_count(), 1U);
  book_.free(undecided);
  book_.follow(book_[ticket_], WaitEvent::granted);
  EXPECT_EQ(book_.waiting_count(), 1U);
  book_.free(ticket_);
  EXPECT_EQ(book_.waiting_count(), 0U);
  const api::Ticket abandoned = book_.take(7, 5);
  book_.follow(book_[abandoned], WaitEvent::client_gone);
  EXPECT_EQ(book_.waiting_count(), 1U);
  book_.free(abandoned);
  EXPECT_EQ(book_.waiting_count(), 0U);
}

// As many tickets as a connection can have by has_share_for(), all of them waiting.
uint32_t fill_share(WaitBook& book) {
  uint32_t held = 0;
  for (; book.has_share_for(held); ++held) {
    book.follow(book[book.take(1, held)], WaitEvent::joined);
  }
  return held;
}

TEST(WaitBookShare, of_a_connection_is_as_much_as_is_free) {
  WaitBook book(100);
  EXPECT_EQ(fill_share(book), 50U);
  EXPECT_EQ(fill_share(book), 25U);
  EXPECT_EQ(fill_share(book), 13U);
}

TEST(WaitBookShare, counts_the_other_shards_as_this_one) {
  WaitBook book(100, 4);
  EXPECT_EQ(fill_share(book), 20U);
}

TEST(WaitBookShare, is_one_ticket_at_least) {
  WaitBook book(3, 8);
  EXPECT_EQ(fill_share(book), 1U);
  EXPECT_EQ(fill_share(book), 1U);
}

TEST(WaitBookShare, counts_no_undecided_entries_of_other_connections) {
  WaitBook book(10);
  for (uint32_t index = 0; index < 100; ++index) book.take(1, index);
  EXPECT_TRUE(book.has_share_for(9));
  EXPECT_FALSE(book.has_share_for(10));
}

TEST_F(WaitBookTest, returns_no_ticket_when_full) {
  while (book_.take(0, 0) != api::no_ticket) {
  }
  EXPECT_EQ(book_.tickets_count(), 1U + limits::turn_entries);
}

}  // namespace
}  // namespace sluice::session
