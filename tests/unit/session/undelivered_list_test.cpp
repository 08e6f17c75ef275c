// Goal: reservations of unsent answers are found by send and by place in it, and no more are kept.
// Method: a list of a few answers; then one that a connection could have.
#include "session/undelivered_list.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::session {
namespace {

using Reservations = std::vector<uint64_t>;

Reservations behind(const UndeliveredList& list, uint64_t send, size_t taken_bytes) {
  Reservations found;
  for (const UndeliveredReservation& undelivered : list.behind(send, taken_bytes)) {
    found.push_back(undelivered.reservation);
  }
  return found;
}

UndeliveredList list_of_two_sends() {
  UndeliveredList list;
  list.add({.reservation = 70, .send = 4, .end_bytes = 100});
  list.add({.reservation = 71, .send = 4, .end_bytes = 250});
  list.add({.reservation = 72, .send = 5, .end_bytes = 90});
  return list;
}

TEST(UndeliveredList, finds_what_a_send_did_not_send) {
  const UndeliveredList list = list_of_two_sends();
  EXPECT_EQ(behind(list, 4, 0), (Reservations{70, 71}));
  EXPECT_EQ(behind(list, 4, 99), (Reservations{70, 71}));
  EXPECT_EQ(behind(list, 4, 100), Reservations{71});
  EXPECT_EQ(behind(list, 4, 250), Reservations{});
  EXPECT_EQ(behind(list, 5, 0), Reservations{72});
  EXPECT_EQ(behind(list, 3, 0), Reservations{});
  EXPECT_EQ(behind(list, 6, 0), Reservations{});
  EXPECT_EQ(behind(UndeliveredList{}, 1, 0), Reservations{});
}

TEST(UndeliveredList, forgets_what_was_sent) {
  UndeliveredList list = list_of_two_sends();
  list.forget_before(4);
  EXPECT_EQ(list.size(), 3u);
  list.forget_before(5);
  EXPECT_EQ(behind(list, 4, 0), Reservations{});
  EXPECT_EQ(behind(list, 5, 0), Reservations{72});
  EXPECT_EQ(list.size(), 1u);
  list.forget_before(9);
  EXPECT_EQ(list.size(), 0u);
}

TEST(UndeliveredList, keeps_no_more_than_two_sends_of_a_busy_connection) {
  UndeliveredList list;
  uint64_t reservation = 0;
  for (uint64_t send = 1; send <= 100; ++send) {
    for (size_t answer = 1; answer <= 50; ++answer) {
      list.forget_before(send - 1);
      list.add({.reservation = ++reservation, .send = send, .end_bytes = 300 * answer});
      ASSERT_LE(list.size(), 100u);
    }
  }
  EXPECT_EQ(behind(list, 100, 300 * 49), Reservations{reservation});
}

}  // namespace
}  // namespace sluice::session
