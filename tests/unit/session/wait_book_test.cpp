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
  const api::Ticket ticket_ = book_.take(7, 3, WaitsFor::permits);
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

TEST_F(WaitBookTest, counts_entries_that_wait_or_hold_an_outcome_by_what_they_wait_for) {
  const auto permits = [&] { return book_.waiting_count(WaitsFor::permits); };
  EXPECT_EQ(permits(), 0U);
  book_.follow(book_[ticket_], WaitEvent::joined);
  EXPECT_EQ(permits(), 1U);
  const api::Ticket undecided = book_.take(7, 4, WaitsFor::permits);
  EXPECT_EQ(permits(), 1U);
  book_.free(undecided);
  book_.follow(book_[ticket_], WaitEvent::granted);
  EXPECT_EQ(permits(), 1U);
  book_.free(ticket_);
  EXPECT_EQ(permits(), 0U);
  const api::Ticket abandoned = book_.take(7, 5, WaitsFor::quota);
  book_.follow(book_[abandoned], WaitEvent::client_gone);
  EXPECT_EQ(permits(), 0U);
  EXPECT_EQ(book_.waiting_count(WaitsFor::quota), 1U);
  book_.free(abandoned);
  EXPECT_EQ(book_.waiting_count(WaitsFor::quota), 0U);
}

TEST_F(WaitBookTest, returns_no_ticket_when_full) {
  while (book_.take(0, 0, WaitsFor::permits) != api::no_ticket) {
  }
  EXPECT_EQ(book_.tickets_count(), 1U + limits::turn_entries);
}

}  // namespace
}  // namespace sluice::session
